# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""LU factors of batches of matrices, and systems solved with them, by LAPACK on their buffers (`lapack_batches`)."""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.weft.engine.devices.cpu.pool import PooledBuffer, allocate
from cython.cimports.weft.functional.support.lapack_batches import first_rows, ints_of
from cython.cimports.weft.functional.support.matrix_batches import (
    Matrices,
    blank,
    by_columns,
    copied,
    from_columns,
    getrf_routine,
    number_at,
    routine_at,
)

from weft._build.compiled import require
from weft.functional.support.lapack_batches import substitute
from weft.functional.support.matrix_batches import GETRF, run

require(__name__, cython.compiled)


def zero_pivots(batch: Matrices) -> Any:
    """Per square matrix, 0 or the first column whose pivot is exactly 0. Shapes: (..., n, n) -> (...)."""
    return lu(batch)[2]


def lu(batch: Matrices) -> tuple[Matrices, Any, Any]:
    """(L - 1 + U, the row that each one was exchanged with, from 1, per matrix 0 or the first column whose pivot is
    exactly 0), with partial pivoting.

    Shapes: (..., m, n) -> (..., m, n), (..., min(m, n)), (...).
    """
    factors: Matrices = by_columns(batch)
    infos = np.zeros(batch.lead, np.int32)
    count = min(factors.rows, factors.columns)
    pivots = np.empty((*batch.lead, count), np.int32)
    if batch.size:
        run(_factor, factors, pivots, infos)
    return from_columns(factors), pivots, infos


def _factor(factors: Matrices, pivots: np.ndarray, infos: np.ndarray) -> None:
    routine = cython.cast(getrf_routine, routine_at(GETRF, factors.letter))
    info = ints_of(infos)
    places = ints_of(pivots)
    step: cython.Py_ssize_t = min(factors.rows, factors.columns)
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(factors.count):
            routine(
                cython.address(factors.columns),
                cython.address(factors.rows),
                factors.at(k),
                cython.address(factors.columns),
                places + k * step,
                info + k,
            )


def lu_solve(factors: Matrices, pivots: np.ndarray, right: Matrices, turned: bool) -> Matrices:
    """X with A X = B (A^H X = B if `turned`), given the LU factors of A, which have no zero pivot.

    BLAS's trsm, as in `substitute`. Shapes: (..., n, n), (..., n), (..., n, k) -> (..., n, k).
    """
    found: Matrices = copied(right)
    if not turned:
        _exchange(found, pivots, False)
        return substitute(factors, substitute(factors, found, False, True), True, False)
    adjoint: Matrices = factors.adjoint()
    found = substitute(adjoint, substitute(adjoint, found, False, False), True, True)
    _exchange(found, pivots, True)
    return found


@cython.cfunc
def _exchange(batch: Matrices, pivots: np.ndarray, backwards: cython.bint) -> cython.void:
    """Exchange rows as the pivots say, in place."""
    places = ints_of(pivots)
    count: cython.Py_ssize_t = pivots.shape[pivots.ndim - 1]
    step: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, batch.columns) * batch.item
    space: PooledBuffer = allocate(max(step, 1))
    k: cython.Py_ssize_t
    turn: cython.Py_ssize_t
    for k in range(batch.count):
        for turn in range(count):
            row: cython.Py_ssize_t = count - 1 - turn if backwards else turn
            other: cython.Py_ssize_t = places[k * count + row] - 1
            if other != row:
                _swap(batch.at(k), row * step, other * step, step, space)


@cython.cfunc
@cython.exceptval(check=False)
def _swap(
    memory: cython.p_void,
    one: cython.Py_ssize_t,
    other: cython.Py_ssize_t,
    nbytes: cython.Py_ssize_t,
    space: PooledBuffer,
) -> cython.void:
    """Exchange two spans of memory."""
    start = cython.cast(cython.p_char, memory)
    memcpy(cython.cast(cython.p_void, space.address), start + one, nbytes)
    memcpy(start + one, start + other, nbytes)
    memcpy(start + other, cython.cast(cython.p_void, space.address), nbytes)


def lu_parts(factors: Matrices) -> tuple[Matrices, Matrices]:
    """(L, U) of compact factors. Shapes: (..., m, n) -> (..., m, min(m, n)), (..., min(m, n), n)."""
    count: cython.int = min(factors.rows, factors.columns)
    upper: Matrices = first_rows(factors, count).triu()
    lower: Matrices = factors
    if factors.columns > count:  # the first columns: the first rows of what LAPACK sees
        lower = from_columns(first_rows(by_columns(factors), count))
    lower = lower.tril(-1)
    _fill_diagonal(lower)
    return lower, upper


@cython.cfunc
def _fill_diagonal(batch: Matrices) -> cython.void:
    """Put ones on diagonals, in place."""
    one = number_at(batch.letter, 0)
    step: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, batch.columns + 1) * batch.item
    k: cython.Py_ssize_t
    row: cython.Py_ssize_t
    for k in range(batch.count):
        for row in range(min(batch.rows, batch.columns)):
            memcpy(
                cython.cast(cython.p_void, cython.cast(cython.size_t, batch.at(k)) + row * step),
                one,
                batch.item,
            )


def permutations(like: Matrices, pivots: np.ndarray) -> Matrices:
    """The matrices P of A = P L U, for the pivots of A. Shapes: (..., m, n), (..., min(m, n)) -> (..., m, m)."""
    made: Matrices = blank(like, like.rows, like.rows)
    memset(
        cython.cast(cython.p_void, made.address),
        0,
        made.count * made.rows * cython.cast(cython.size_t, made.rows) * made.item,
    )
    _fill_diagonal(made)
    _exchange(made, pivots, True)
    return made
