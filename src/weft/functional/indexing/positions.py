# cython: language_level=3
"""Positions that are known on the host: of nonzero elements of an array, as coordinates for `nonzero` and as an index
for masks; and those of lists and arrays, counted from the end where they are negative.

It takes arrays of values and returns positions, int64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython
import numpy as np
from cython.cimports.cpython.buffer import (
    Py_buffer,
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cython.cimports.libc.stdint import int64_t
from cython.cimports.weft.engine.devices.cpu.pool import PooledBuffer, allocate

from weft._build.compiled import require
from weft.engine.frontend.node_factory import make_value
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir import dtype as dtypes
from weft.functional.support import host
from weft.functional.support.index_bounds import trusted

if TYPE_CHECKING:
    from weft._typing import Array


require(__name__, cython.compiled)


def coordinates(array: Array) -> Any:
    """The coordinates of nonzero elements in row-major order: (dimensions, count), each element's contiguous in
    memory. There is at least one dimension."""
    return host.answering(_coordinates, array)


def _coordinates(array: Array) -> Any:
    mask = np.ascontiguousarray(array if array.dtype == bool else array != 0)
    given = cython.declare(Py_buffer)
    PyObject_GetBuffer(mask, cython.address(given), PyBUF_SIMPLE)
    try:
        holds = cython.cast(cython.pointer(cython.uchar), given.buf)
        size: cython.Py_ssize_t = given.len
        count: cython.Py_ssize_t
        with cython.nogil:
            count = _count(holds, size)
        rank: cython.Py_ssize_t = mask.ndim
        found = np.empty((count + 1, rank), np.int64)  # what does not hold is written behind
        if count > 0:
            _fill(holds, mask.shape, found)
    finally:
        PyBuffer_Release(cython.address(given))
    return found[:count].T


def positions(mask: Array) -> Any:
    """The row-major positions at which a mask holds, as a tensor of one dimension, known to be in range."""
    mask = np.ascontiguousarray(mask, bool)
    given = cython.declare(Py_buffer)
    PyObject_GetBuffer(mask, cython.address(given), PyBUF_SIMPLE)
    try:
        holds = cython.cast(cython.pointer(cython.uchar), given.buf)
        size: cython.Py_ssize_t = given.len
        count: cython.Py_ssize_t
        with cython.nogil:
            count = _count(holds, size)
        buffer = cython.declare(PooledBuffer, allocate((count + 1) * 8))  # as in `_coordinates`
        found = cython.cast(cython.pointer(int64_t), buffer.address)
        sizes = cython.declare(int64_t[1])
        sizes[0] = size if count else 0
        with cython.nogil:
            _fill_rows(holds, 1, 1, sizes, found)
    finally:
        PyBuffer_Release(cython.address(given))
    return trusted(wrap_node(make_value(dtypes.int64, (count,), buffer, 0)), size)


def first_outside(places: Array, size: int) -> int:
    """Count negative positions from the end, in place, in an array of int64 in row-major order; the place of the first
    that is out of range even so, or -1."""
    target = cython.declare(Py_buffer)
    PyObject_GetBuffer(places, cython.address(target), PyBUF_WRITABLE)
    found = cython.cast(cython.pointer(int64_t), target.buf)
    count: cython.Py_ssize_t = target.len // 8
    stop: int64_t = size
    number: cython.Py_ssize_t = -1
    place: cython.Py_ssize_t
    with cython.nogil:
        for place in range(count):
            if found[place] < 0:
                found[place] += stop
            if found[place] < 0 or found[place] >= stop:
                number = place
                break
    PyBuffer_Release(cython.address(target))
    return number


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _count(holds: cython.pointer[cython.uchar], size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    total: cython.Py_ssize_t = 0
    index: cython.Py_ssize_t
    for index in range(size):
        total += holds[index] != 0  # memory of others need not hold 1 where it holds
    return total


@cython.cfunc
def _fill(holds: cython.pointer[cython.uchar], shape: tuple[int, ...], found: object) -> object:
    """The coordinates of what holds into (count + 1, dimensions) numbers."""
    sizes = cython.declare(int64_t[64])
    target = cython.declare(Py_buffer)
    rank: cython.Py_ssize_t = len(shape)
    rows: cython.Py_ssize_t = 1
    axis: cython.Py_ssize_t
    for axis in range(rank):
        sizes[axis] = shape[axis]
        rows *= sizes[axis] if axis < rank - 1 else 1
    PyObject_GetBuffer(found, cython.address(target), PyBUF_SIMPLE)
    with cython.nogil:
        _fill_rows(holds, rows, rank, sizes, cython.cast(cython.pointer(int64_t), target.buf))
    PyBuffer_Release(cython.address(target))
    return None


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fill_rows(
    holds: cython.pointer[cython.uchar],
    rows: cython.Py_ssize_t,
    rank: cython.Py_ssize_t,
    sizes: cython.pointer[int64_t],
    found: cython.pointer[int64_t],
) -> cython.void:
    """`above` counts through the rows; each place is written, and stays where the element holds."""
    above = cython.declare(int64_t[64])  # NumPy's arrays have no more dimensions
    first = cython.declare(cython.pointer(int64_t))
    length: cython.Py_ssize_t = sizes[rank - 1]
    place: cython.Py_ssize_t
    axis: cython.Py_ssize_t
    for axis in range(rank):
        above[axis] = 0
    for _ in range(rows):
        first = found
        for place in range(length):
            found[rank - 1] = place
            found += rank if holds[place] != 0 else 0
        holds += length
        while first != found:
            for axis in range(rank - 1):
                first[axis] = above[axis]
            first += rank
        axis = rank - 2
        while axis >= 0:
            above[axis] += 1
            if above[axis] < sizes[axis]:
                break
            above[axis] = 0
            axis -= 1
