# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Eigenvalues and singular values of batches of real matrices, by LAPACK on their buffers (`lapack_batches`)."""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.weft.engine.devices.cpu.pool import PooledBuffer, allocate
from cython.cimports.weft.functional.support.lapack_batches import ints_of
from cython.cimports.weft.functional.support.matrix_batches import (
    Matrices,
    blank,
    by_columns,
    element_type,
    from_columns,
    gesdd_routine,
    routine_at,
    syevd_routine,
)

from weft._build.compiled import require
from weft.engine.devices.cpu.pool import address_of
from weft.functional.support.lapack_batches import BLOCK
from weft.functional.support.matrix_batches import GESDD, SYEVD, run

require(__name__, cython.compiled)


def eigh(batch: Matrices, lower: bool) -> tuple[Any, Matrices, Any]:
    """(ascending eigenvalues, orthonormal eigenvectors, infos) of real symmetric matrices; one triangle is read.

    Shapes: (..., n, n) -> (..., n), (..., n, n), (...).
    """
    found: Matrices = by_columns(batch)
    values = np.empty((*batch.lead, found.rows), element_type(found))
    infos = np.zeros(batch.lead, np.int32)
    if batch.size:
        run(_decompose, found, values, infos, lower)
    return values, from_columns(found), infos


def _decompose(found: Matrices, values: np.ndarray, infos: np.ndarray, lower: cython.bint) -> None:
    routine = cython.cast(syevd_routine, routine_at(SYEVD, found.letter))
    info = ints_of(infos)
    value: cython.size_t = address_of(values)
    step: cython.size_t = cython.cast(cython.size_t, found.rows) * found.item
    n: cython.int = found.rows
    room: cython.int = max(1 + 6 * n + 2 * n * n, 2 * n + BLOCK * n)
    more_room: cython.int = 3 + 5 * n
    work: PooledBuffer = allocate(cython.cast(cython.Py_ssize_t, room) * found.item)
    places: PooledBuffer = allocate(cython.cast(cython.Py_ssize_t, more_room) * 4)
    space = cython.cast(cython.p_void, work.address)
    numbers = cython.cast(cython.p_int, places.address)
    vectors: cython.char = 86  # V
    triangle: cython.char = 76 if lower else 85  # L or U
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(found.count):
            routine(
                cython.address(vectors),
                cython.address(triangle),
                cython.address(n),
                found.at(k),
                cython.address(n),
                cython.cast(cython.p_void, value + k * step),
                space,
                cython.address(room),
                numbers,
                cython.address(more_room),
                info + k,
            )


def svd(batch: Matrices) -> tuple[Matrices, Any, Matrices, Any]:
    """(U, singular values, V^T, infos) of real matrices, thin.

    Shapes: (..., m, n) -> (..., m, k), (..., k), (..., k, n), (...), with k = min(m, n).
    """
    given: Matrices = by_columns(batch)  # n columns of m, as rows
    count: cython.int = min(given.rows, given.columns)
    left: Matrices = blank(given, count, given.columns)
    right: Matrices = blank(given, given.rows, count)
    values = np.empty((*batch.lead, count), element_type(given))
    infos = np.zeros(batch.lead, np.int32)
    if batch.size:
        run(_decompose_twice, given, left, values, right, infos)
    return from_columns(left), values, from_columns(right), infos


def _decompose_twice(
    given: Matrices, left: Matrices, values: np.ndarray, right: Matrices, infos: np.ndarray
) -> None:
    routine = cython.cast(gesdd_routine, routine_at(GESDD, given.letter))
    info = ints_of(infos)
    value: cython.size_t = address_of(values)
    count: cython.int = left.rows
    step: cython.size_t = cython.cast(cython.size_t, count) * given.item
    larger: cython.int = max(given.rows, given.columns)
    room: cython.int = 4 * count * count + 7 * count + larger + BLOCK * (larger + 3 * count)
    work: PooledBuffer = allocate(cython.cast(cython.Py_ssize_t, room) * given.item)
    places: PooledBuffer = allocate(cython.cast(cython.Py_ssize_t, count) * 32)
    space = cython.cast(cython.p_void, work.address)
    numbers = cython.cast(cython.p_int, places.address)
    thin: cython.char = 83  # S
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(given.count):
            routine(
                cython.address(thin),
                cython.address(given.columns),
                cython.address(given.rows),
                given.at(k),
                cython.address(given.columns),
                cython.cast(cython.p_void, value + k * step),
                left.at(k),
                cython.address(given.columns),
                right.at(k),
                cython.address(count),
                space,
                cython.address(room),
                numbers,
                info + k,
            )
