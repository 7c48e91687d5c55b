# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Bounds checks of index tensors against the dimensions that they index, if their values are computed at the call.

A visible index out of range is an error here, as in PyTorch. Pending indices are checked by the kernel that uses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.index_range import scan, within
from cython.cimports.weft.engine.ir.node import DONE, Node

from weft._build.compiled import require
from weft.engine.frontend.resolve import value_of
from weft.engine.ir.index_range import assume_in_range, range_error
from weft.engine.runtime.numpy_views import array_over, window_over

if TYPE_CHECKING:
    from weft._typing import TensorArgument


require(__name__, cython.compiled)

UNKNOWN, KNOWN, COUNTED = range(3)


@cython.ccall
def check_index(
    name: str, index: Tensor, size: cython.longlong, dimension: int | None, wraps: bool
) -> Any:
    """COUNTED where all positions are known to be in range and none counts from the end, KNOWN where some may, UNKNOWN
    for values that are not there. Errors: IndexRangeError."""
    limit: cython.longlong = size
    least: cython.longlong = -limit if wraps else 0
    low: cython.longlong = 0
    high: cython.longlong = 0
    node: Node = index.node if index._storage is None else index._storage.node
    if node.state != DONE or index.view_transform != 0:
        return COUNTED if index.view_transform == 0 and within(node, limit) else UNKNOWN
    if index._storage is None and 0 < node.max_index <= limit:
        return COUNTED
    count: cython.longlong = 1
    for extent in index._shape:
        count *= extent
    if count == 0:
        return COUNTED
    plain: cython.bint = index.strides is None
    if not plain or not scan(node, index.offset, count, cython.address(low), cython.address(high)):
        values = _values(index, node)
        if values is None or values.dtype.kind not in "iu":
            return UNKNOWN
        low, high = int(values.min()), int(values.max())
    if high >= limit or low < least:
        raise range_error(name, _values(index, node), size, dimension, wraps)
    if low < 0:
        return KNOWN
    if index._storage is None:
        node.max_index = high + 1
    return COUNTED


def _values(index: TensorArgument, node: Node) -> Any:
    """The elements of a tensor whose storage has its value, without recording anything."""
    if index._storage is None:
        return array_over(node)
    return window_over(node, index._shape, index.strides, index.offset)


def values_if_there(tensor: Tensor) -> Any:
    """The elements of a tensor as an array, or None where they are still to be computed."""
    node: Node = tensor.node if tensor._storage is None else tensor._storage.node
    return None if node.state != DONE or tensor.view_transform != 0 else _values(tensor, node)


def present_values(index: TensorArgument) -> Any:
    """The elements of a tensor that `check_index` has looked at, as an array."""
    return _values(index, index._storage.node if index._storage is not None else value_of(index))


def trusted(index: TensorArgument, size: int) -> Any:
    """An index tensor that has been made from one known to be in range."""
    assume_in_range(value_of(index), size)
    return index
