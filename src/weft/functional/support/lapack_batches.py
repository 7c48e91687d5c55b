# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""LAPACK over batches of matrices: one compiled loop calls a routine for each, without a call of Python between.

It takes arrays of matrices in the last two dimensions, of float32, float64 or complex numbers, and gives new ones. The
routines are those of SciPy's LAPACK, at the addresses that `scipy.linalg.cython_lapack` exports. LAPACK's matrices lie
by columns, so what goes in is copied transposed, and what comes out is a transposed view.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import cython
import numpy as np
from cython.cimports.cpython.pycapsule import PyCapsule_GetName, PyCapsule_GetPointer
from cython.cimports.libc.string import memset
from cython.cimports.weft.functional.support.lapack_batches import Batch, matrix

from weft._build.compiled import require
from weft.engine.devices.cpu.pool import address_of
from weft.functional.support.blas_threads import limited

require(__name__, cython.compiled)

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


@cache
def _address(library: str, name: str, kind: str) -> int:
    """The address of a routine for an element type, by NumPy's letter."""
    from scipy.linalg import cython_blas, cython_lapack

    module = cython_blas if library == "blas" else cython_lapack
    capsule = module.__pyx_capi__[_LETTERS[kind] + name]
    return cython.cast(cython.size_t, PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)))


def _by_columns(matrices: np.ndarray, lead: tuple[int, ...]) -> Any:
    """A copy of a batch, expanded to `lead`, in which each matrix lies by columns. Shapes: (..., m, n) -> (b, n, m)."""
    rows, columns = matrices.shape[-2:]
    if matrices.shape[:-2] != lead:
        matrices = np.broadcast_to(matrices, (*lead, rows, columns))
    copied = matrices.swapaxes(-1, -2).copy(order="C")
    return copied.reshape(math.prod(lead), columns, rows)


def _shown(copied: np.ndarray, lead: tuple[int, ...]) -> Any:
    """Matrices that lie by columns, as a view. Shapes: (b, n, m) -> (..., m, n)."""
    return copied.reshape(*lead, *copied.shape[1:]).swapaxes(-1, -2)


@cython.cfunc
def _at(array: object) -> cython.size_t:
    return cython.cast(cython.size_t, address_of(array))


def _leads(one: np.ndarray, other: np.ndarray) -> tuple[int, ...]:
    """The dimensions of a batch that two batches are expanded to."""
    first, second = one.shape[:-2], other.shape[:-2]
    return first if first == second else np.broadcast_shapes(first, second)


@cython.cfunc
def _batch(array: np.ndarray) -> Batch:
    """The place in memory of the matrices of an array, which has to live as long. Shapes: (b, columns, rows)."""
    found = cython.declare(Batch)
    found.count, found.columns, found.rows = array.shape
    found.address = _at(array)
    found.step = array.itemsize * found.columns * found.rows
    return found


# -- general matrices ----------------------------------------------------------------------------------------------


def solve(matrices: np.ndarray, right: np.ndarray) -> tuple[Any, Any]:
    """(X with A X = B, per matrix 0 or the first column whose pivot is exactly 0).

    Shapes: (..., n, n), (..., n, k) -> (..., n, k), (...).
    """
    lead = _leads(matrices, right)
    infos = np.zeros(lead, np.int32)
    found = _by_columns(right, lead)
    if matrices.size and len(found):
        limited(_solve)(_by_columns(matrices, lead), found, infos)
    return _shown(found, lead), infos


def _solve(factors: np.ndarray, found: np.ndarray, infos: np.ndarray) -> None:
    routine = cython.cast(
        "gesv_routine", cython.cast(cython.size_t, _address("lapack", "gesv", factors.dtype.char))
    )
    a: Batch = _batch(factors)
    b: Batch = _batch(found)
    info = cython.cast(cython.p_int, _at(infos))
    places = np.empty(a.rows, np.int32)
    pivots = cython.cast(cython.p_int, _at(places))
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(a.count):
            routine(
                cython.address(a.rows),
                cython.address(b.columns),
                matrix(a, k),
                cython.address(a.rows),
                pivots,
                matrix(b, k),
                cython.address(a.rows),
                info + k,
            )


def zero_pivots(matrices: np.ndarray) -> Any:
    """Per square matrix, 0 or the first column whose pivot is exactly 0. Shapes: (..., n, n) -> (...)."""
    lead = matrices.shape[:-2]
    infos = np.zeros(lead, np.int32)
    if matrices.size:
        limited(_factor)(_by_columns(matrices, lead), infos)
    return infos


def _factor(factors: np.ndarray, infos: np.ndarray) -> None:
    routine = cython.cast(
        "getrf_routine", cython.cast(cython.size_t, _address("lapack", "getrf", factors.dtype.char))
    )
    a: Batch = _batch(factors)
    info = cython.cast(cython.p_int, _at(infos))
    places = np.empty(a.rows, np.int32)
    pivots = cython.cast(cython.p_int, _at(places))
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(a.count):
            routine(
                cython.address(a.rows),
                cython.address(a.rows),
                matrix(a, k),
                cython.address(a.rows),
                pivots,
                info + k,
            )


# -- triangles and definite matrices -------------------------------------------------------------------------------


def cholesky(matrices: np.ndarray) -> tuple[Any, Any]:
    """(L with A = L L^H, per matrix 0 or the order of the first minor that is not positive definite).

    Shapes: (..., n, n) -> (..., n, n), (...). Only lower triangles are read.
    """
    lead = matrices.shape[:-2]
    infos = np.zeros(lead, np.int32)
    factors = _by_columns(matrices, lead)
    if matrices.size:
        limited(_cholesky)(factors, infos)
    return _shown(factors, lead), infos


def _cholesky(factors: np.ndarray, infos: np.ndarray) -> None:
    routine = cython.cast(
        "potrf_routine", cython.cast(cython.size_t, _address("lapack", "potrf", factors.dtype.char))
    )
    item: cython.size_t = factors.itemsize
    a: Batch = _batch(factors)
    info = cython.cast(cython.p_int, _at(infos))
    lower: cython.char = 76  # L
    k: cython.Py_ssize_t
    column: cython.int
    with cython.nogil:
        for k in range(a.count):
            routine(
                cython.address(lower),
                cython.address(a.rows),
                matrix(a, k),
                cython.address(a.rows),
                info + k,
            )
            for column in range(1, a.rows):  # above the diagonal
                memset(
                    cython.cast(cython.p_void, a.address + k * a.step + item * column * a.rows),
                    0,
                    item * column,
                )


def cholesky_solve(factors: np.ndarray, right: np.ndarray, upper: bool) -> Any:
    """X with A X = B, given Cholesky factors of A. Shapes: (..., n, n), (..., n, k) -> (..., n, k)."""
    lead = _leads(factors, right)
    found = _by_columns(right, lead)
    if found.size:
        limited(_solve_definite)(_by_columns(factors, lead), found, upper)
    return _shown(found, lead)


def _solve_definite(factors: np.ndarray, found: np.ndarray, upper: bool) -> None:
    routine = cython.cast(
        "potrs_routine", cython.cast(cython.size_t, _address("lapack", "potrs", factors.dtype.char))
    )
    a: Batch = _batch(factors)
    b: Batch = _batch(found)
    triangle: cython.char = 85 if upper else 76  # U or L
    info: cython.int = 0
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(a.count):
            routine(
                cython.address(triangle),
                cython.address(a.rows),
                cython.address(b.columns),
                matrix(a, k),
                cython.address(a.rows),
                matrix(b, k),
                cython.address(a.rows),
                cython.address(info),
            )


def substitute(triangles: np.ndarray, right: np.ndarray, upper: bool, unit: bool) -> Any:
    """X with A X = B for triangles without zeros on their diagonals; the other halves are not read.

    BLAS's trsm: LAPACK's trtrs lets all threads of OpenBLAS wait for each other at any size; beside other work 16 rows
    took it 5 ms. Shapes: (..., n, n), (..., n, k) -> (..., n, k).
    """
    lead = _leads(triangles, right)
    if triangles.shape[:-2] != lead:
        triangles = np.broadcast_to(triangles, (*lead, *triangles.shape[-2:]))
    rows = np.ascontiguousarray(triangles)  # BLAS sees A^T
    found = _by_columns(right, lead)
    if found.size:
        limited(_substitute)(rows.reshape(-1, *rows.shape[-2:]), found, upper, unit)
    return _shown(found, lead)


def _substitute(triangles: np.ndarray, found: np.ndarray, upper: bool, unit: bool) -> None:
    routine = cython.cast(
        "trsm_routine", cython.cast(cython.size_t, _address("blas", "trsm", triangles.dtype.char))
    )
    a: Batch = _batch(triangles)
    b: Batch = _batch(found)
    ones = np.ones(1, triangles.dtype)
    one = cython.cast(cython.p_void, _at(ones))
    left: cython.char = 76  # L
    triangle: cython.char = 76 if upper else 85  # L or U, of A^T
    transposed: cython.char = 84  # T
    diagonal: cython.char = 85 if unit else 78  # U or N
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(a.count):
            routine(
                cython.address(left),
                cython.address(triangle),
                cython.address(transposed),
                cython.address(diagonal),
                cython.address(a.rows),
                cython.address(b.columns),
                one,
                matrix(a, k),
                cython.address(a.rows),
                matrix(b, k),
                cython.address(a.rows),
            )
