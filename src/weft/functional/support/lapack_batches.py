# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Linear systems and factors of batches of matrices: a compiled loop calls a routine of LAPACK for each, without a call
of Python between. In come `Matrices`, out go others, and what LAPACK reports of each matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython
import numpy as np
from cython.cimports.libc.string import memcpy
from cython.cimports.weft.engine.devices.cpu.pool import PooledBuffer, allocate
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.functional.support.matrix_batches import (
    Matrices,
    blank,
    by_columns,
    copied,
    from_columns,
    geqrf_routine,
    gesv_routine,
    number_at,
    orgqr_routine,
    potrf_routine,
    routine_at,
    trsm_routine,
)

from weft._build.compiled import require
from weft.engine.devices.cpu.pool import address_of
from weft.functional.support import host
from weft.functional.support.matrix_batches import (
    GEQRF,
    GESV,
    NUMBERS,
    ORGQR,
    POTRF,
    TRSM,
    UNGQR,
    array_of,
    matrices,
    run,
)

require(__name__, cython.compiled)

BLOCK = 64  # columns that LAPACK takes at once: its workspace is this many times the width


# -- general matrices ----------------------------------------------------------------------------------------------


def solve(batch: Matrices, right: Matrices) -> tuple[Matrices, Any]:
    """(X with A X = B, per matrix 0 or the first column whose pivot is exactly 0).

    Shapes: (..., n, n), (..., n, k) -> (..., n, k), (...).
    """
    infos = np.zeros(batch.lead, np.int32)
    found: Matrices = by_columns(right)
    if batch.size and found.count:
        run(_solve, by_columns(batch), found, infos)
    return from_columns(found), infos


def _solve(factors: Matrices, found: Matrices, infos: np.ndarray) -> None:
    routine = cython.cast(gesv_routine, routine_at(GESV, factors.letter))
    info = ints_of(infos)
    places: PooledBuffer = allocate(factors.rows * 4)
    pivots = cython.cast(cython.p_int, places.address)
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(factors.count):
            routine(
                cython.address(factors.rows),
                cython.address(found.rows),
                factors.at(k),
                cython.address(factors.rows),
                pivots,
                found.at(k),
                cython.address(factors.rows),
                info + k,
            )


@cython.cfunc
def ints_of(array: object) -> cython.p_int:
    """The elements of a row-major array of 32-bit integers without gaps."""
    return cython.cast(cython.p_int, cython.cast(cython.size_t, address_of(array)))


def any_failed(infos: np.ndarray) -> bool:
    """True if one of LAPACK's answers about matrices, which are 0 where all is well, is not."""
    info = ints_of(infos)
    count: cython.Py_ssize_t = infos.size
    k: cython.Py_ssize_t
    for k in range(count):  # noqa: SIM110 - a generator would not be a loop in C
        if info[k] != 0:
            return True
    return False


# -- triangles and definite matrices -------------------------------------------------------------------------------


def cholesky(batch: Matrices) -> tuple[Matrices, Any]:
    """(L with A = L L^H, per matrix 0 or the order of the first minor that is not positive definite).

    Shapes: (..., n, n) -> (..., n, n), (...). Only lower triangles are read.
    """
    infos = np.zeros(batch.lead, np.int32)
    factors: Matrices = copied(batch)
    if batch.size:
        run(_cholesky, factors, infos)
    return factors.tril(), infos


def _cholesky(factors: Matrices, infos: np.ndarray) -> None:
    """LAPACK sees A^T = U^H U, where U^T is L."""
    routine = cython.cast(potrf_routine, routine_at(POTRF, factors.letter))
    info = ints_of(infos)
    upper: cython.char = 85  # U
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(factors.count):
            routine(
                cython.address(upper),
                cython.address(factors.rows),
                factors.at(k),
                cython.address(factors.rows),
                info + k,
            )


def cholesky_solve(factors: Matrices, right: Matrices, upper: bool) -> Matrices:
    """X with A X = B, given Cholesky factors of A. Shapes: (..., n, n), (..., n, k) -> (..., n, k)."""
    first = factors.adjoint() if upper else factors
    return substitute(first.adjoint(), substitute(first, right, False, False), True, False)


def has_zero_pivot(triangles: Matrices) -> bool:
    """True if there is a 0 on a diagonal."""
    k: cython.Py_ssize_t
    row: cython.Py_ssize_t
    place: cython.Py_ssize_t
    single: cython.bint = triangles.letter == 0 or triangles.letter == 2
    several: cython.Py_ssize_t = 2 if triangles.letter > 1 else 1
    for k in range(triangles.count):
        for row in range(triangles.rows):
            place = row * (triangles.columns + 1) * several
            if single:
                less = cython.cast(cython.p_float, triangles.at(k)) + place
                if less[0] == 0 and less[several - 1] == 0:
                    return True
            else:
                more = cython.cast(cython.p_double, triangles.at(k)) + place
                if more[0] == 0 and more[several - 1] == 0:
                    return True
    return False


def substitute(triangles: Matrices, right: Matrices, upper: bool, unit: bool) -> Matrices:
    """X with A X = B for triangles without zeros on their diagonals; the other halves are not read.

    BLAS's trsm: LAPACK's trtrs lets all threads of OpenBLAS wait for each other at any size; beside other work 16 rows
    took it 5 ms. Shapes: (..., n, n), (..., n, k) -> (..., n, k).
    """
    found: Matrices = copied(right)
    if found.size:
        run(_substitute, found, triangles, upper, unit)
    return found


def _substitute(
    found: Matrices, triangles: Matrices, upper: cython.bint, unit: cython.bint
) -> None:
    """BLAS sees X^T A^T = B^T."""
    routine = cython.cast(trsm_routine, routine_at(TRSM, found.letter))
    one = number_at(found.letter, 0)
    right: cython.char = 82  # R
    turned: cython.char = 67 if triangles.turned else 78  # C or N
    # L or U: the transpose of what is in memory, of which `upper` says the other half if it is turned.
    triangle: cython.char = 85 if upper == triangles.turned else 76
    diagonal: cython.char = 85 if unit else 78  # U or N
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(found.count):
            routine(
                cython.address(right),
                cython.address(triangle),
                cython.address(turned),
                cython.address(diagonal),
                cython.address(found.columns),
                cython.address(found.rows),
                one,
                triangles.at(k),
                cython.address(found.rows),
                found.at(k),
                cython.address(found.columns),
            )


# -- Householder reflections ---------------------------------------------------------------------------------------


def qr(batch: Matrices, columns: cython.int) -> tuple[Matrices, Matrices]:
    """(Q with `columns` columns, R with as many rows) of matrices that are at least as high as wide.

    Shapes: (..., m, n) -> (..., m, columns), (..., columns, n).
    """
    factors: Matrices = by_columns(batch)
    scales = _reflected(factors)
    by_rows: Matrices = from_columns(factors)
    upper: Matrices = by_rows.triu()
    if columns < by_rows.rows:
        upper = first_rows(upper, columns)
    return _multiplied_out(factors, scales, columns), upper


@cython.cfunc
def first_rows(batch: Matrices, rows: cython.int) -> Matrices:
    """The first rows of matrices; rows that are missing are of any values."""
    made: Matrices = blank(batch, rows, batch.columns)
    size: cython.size_t = (
        cython.cast(cython.size_t, min(rows, batch.rows)) * batch.columns * batch.item
    )
    k: cython.Py_ssize_t
    for k in range(batch.count):
        memcpy(made.at(k), batch.at(k), size)
    return made


def reflectors(batch: Matrices) -> tuple[Matrices, Any]:
    """(R and below its diagonal the vectors of reflections, their factors), as geqrf leaves them.

    Shapes: (..., m, n) -> (..., m, n), (..., min(m, n)).
    """
    factors: Matrices = by_columns(batch)
    scales = _reflected(factors)
    return from_columns(factors), scales


@cython.cfunc
def _reflected(factors: Matrices) -> object:
    """The factors of reflections, whose vectors lie in the matrices then."""
    count = min(factors.rows, factors.columns)
    scales = np.zeros((*factors.lead, count), NUMBERS[factors.letter].dtype)
    if factors.size:
        run(_reflect, factors, scales)
    return scales


def _reflect(factors: Matrices, scales: np.ndarray) -> None:
    routine = cython.cast(geqrf_routine, routine_at(GEQRF, factors.letter))
    room: cython.int = BLOCK * factors.rows
    work: PooledBuffer = allocate(room * factors.item)
    space = cython.cast(cython.p_void, work.address)
    scale: cython.size_t = address_of(scales)
    step: cython.size_t = min(factors.rows, factors.columns) * factors.item
    info: cython.int = 0
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(factors.count):
            routine(
                cython.address(factors.columns),
                cython.address(factors.rows),
                factors.at(k),
                cython.address(factors.columns),
                cython.cast(cython.p_void, scale + k * step),
                space,
                cython.address(room),
                cython.address(info),
            )


def product_of_reflectors(vectors: Matrices, scales: np.ndarray, columns: int) -> Matrices:
    """The first columns of the product of reflections. Shapes: (..., m, n), (..., k) -> (..., m, columns)."""
    return _multiplied_out(by_columns(vectors), np.ascontiguousarray(scales), columns)


@cython.cfunc
def _multiplied_out(vectors: Matrices, scales: object, columns: cython.int) -> Matrices:
    """Q, of vectors by columns."""
    factors: Matrices = vectors if vectors.rows == columns else first_rows(vectors, columns)
    if factors.size:
        run(_multiply_out, factors, scales)
    return from_columns(factors)


def _multiply_out(factors: Matrices, scales: np.ndarray) -> None:
    which = UNGQR if factors.letter > 1 else ORGQR
    routine = cython.cast(orgqr_routine, routine_at(which, factors.letter))
    room: cython.int = BLOCK * factors.rows
    work: PooledBuffer = allocate(room * factors.item)
    space = cython.cast(cython.p_void, work.address)
    scale: cython.size_t = address_of(scales)
    count: cython.int = scales.shape[-1]
    step: cython.size_t = count * factors.item
    info: cython.int = 0
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(factors.count):
            routine(
                cython.address(factors.columns),
                cython.address(factors.rows),
                cython.address(count),
                factors.at(k),
                cython.address(factors.columns),
                cython.cast(cython.p_void, scale + k * step),
                space,
                cython.address(room),
                cython.address(info),
            )


def call(function: Callable[..., object], *given: object) -> Any:
    """`function` of the values of tensors or arrays, with its batches of matrices as arrays."""
    values = [matrices(x) if isinstance(x, (Tensor, np.ndarray)) else x for x in given]
    made = host.answering(function, *values)
    parts = made if isinstance(made, tuple) else (made,)
    shown = tuple([array_of(x) if isinstance(x, Matrices) else x for x in parts])
    return shown if isinstance(made, tuple) else shown[0]
