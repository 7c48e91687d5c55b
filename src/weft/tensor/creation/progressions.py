# cython: language_level=3
"""Arithmetic progressions and the indices of triangles, written into memory at the call.

A short progression takes less time to write than to record: linspace is ten nodes. The arithmetic is that of the
recorded nodes, each step rounded to the dtype, so that both have the same bits.
"""

from typing import Any

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.weft.engine.devices.cpu.pool import PooledBuffer, allocate
from cython.cimports.weft.engine.frontend.node_factory import new_value
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.node import Node

from weft._build.compiled import require
from weft.engine.ir import dtype as dtypes

require(__name__, cython.compiled)

_single = cython.declare(DType, dtypes.float32)
_double = cython.declare(DType, dtypes.float64)
_whole = cython.declare(DType, dtypes.int64)
MOST_WRITTEN = 4096  # elements: about what can be written while ten nodes are recorded


@cython.ccall
def spaced_numbers(
    first: cython.double, last: cython.double, steps: cython.Py_ssize_t, dtype: DType
) -> Any:
    """`steps` >= 2 evenly spaced numbers, counted from both ends, in float32 or float64."""
    buffer: PooledBuffer = allocate(steps * dtype.itemsize)
    if dtype is _single:
        _spaced_single(cython.cast(cython.p_float, buffer.address), first, last, steps)
    else:
        assert dtype is _double
        _spaced_double(cython.cast(cython.p_double, buffer.address), first, last, steps)
    return wrap(new_value(dtype, (steps,), buffer, 0), None)


@cython.cfunc
@cython.cdivision(True)
def _spaced_single(
    out: cython.p_float, first: cython.float, last: cython.float, steps: cython.Py_ssize_t
) -> cython.void:
    place: cython.Py_ssize_t
    half: cython.Py_ssize_t = steps // 2
    offset: cython.float
    step: cython.float = (last - first) / cython.cast(cython.float, steps - 1)
    for place in range(half):
        offset = cython.cast(cython.float, place) * step
        out[place] = offset + first
    for place in range(half, steps):
        offset = cython.cast(cython.float, steps - 1 - place) * step
        out[place] = last - offset


@cython.cfunc
@cython.cdivision(True)
def _spaced_double(
    out: cython.p_double, first: cython.double, last: cython.double, steps: cython.Py_ssize_t
) -> cython.void:
    place: cython.Py_ssize_t
    half: cython.Py_ssize_t = steps // 2
    offset: cython.double
    step: cython.double = (last - first) / cython.cast(cython.double, steps - 1)
    for place in range(half):
        offset = cython.cast(cython.double, place) * step
        out[place] = offset + first
    for place in range(half, steps):
        offset = cython.cast(cython.double, steps - 1 - place) * step
        out[place] = last - offset


# -- triangles -----------------------------------------------------------------------------------------------------


@cython.ccall
def triangle_indices(rows: int64_t, columns: int64_t, offset: int64_t, lower: cython.bint) -> Any:
    """Row and column of each element of a triangle, row after row: of every row those up to the diagonal, or those from
    it. Shapes: (2, n)."""
    row: int64_t
    column: int64_t
    diagonal: int64_t
    largest: int64_t = -1
    count: cython.Py_ssize_t = 0
    for row in range(rows):
        diagonal = _diagonal(row, columns, offset + lower)
        count += diagonal if lower else columns - diagonal
    buffer: PooledBuffer = allocate(count * 16)
    out: cython.pointer[int64_t] = cython.cast(cython.pointer(int64_t), buffer.address)
    place: cython.Py_ssize_t = 0
    for row in range(rows):
        diagonal = _diagonal(row, columns, offset + lower)
        for column in range(0 if lower else diagonal, diagonal if lower else columns):
            out[place] = row
            out[count + place] = column
            largest = max(largest, row, column)
            place += 1
    node: Node = new_value(_whole, (2, count), buffer, 0)
    node.max_index = largest + 1
    return wrap(node, None)


@cython.cfunc
@cython.exceptval(check=False)
def _diagonal(row: int64_t, columns: int64_t, offset: int64_t) -> int64_t:
    """The column of a row where the triangle has its edge, within the matrix."""
    column: int64_t = row + offset
    return 0 if column < 0 else columns if column > columns else column
