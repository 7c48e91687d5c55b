# cython: language_level=3
"""Value-range analysis of index tensors: whether all their elements are valid positions.

It takes integer nodes. A node's `max_index` is one more than its largest element if all are known to be at least 0,
and -1 if some are known not to be; it is found once. What the analysis cannot prove, the kernel checks.
"""

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBuffer_Release
from cython.cimports.libc.stdint import int32_t, int64_t
from cython.cimports.weft.engine.ir.elements import dense_elements
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node
from cython.cimports.weft.engine.ir.primitive import (
    BY_CHOICE,
    BY_COUNT,
    BY_OPERAND,
    BY_REDUCED,
    scalar_op,
)
from cython.cimports.weft.engine.ir.tape import view_kind

from weft._build.compiled import require
from weft.errors import IndexRangeError

require(__name__, cython.compiled)

Whole = cython.fused_type(int32_t, int64_t)

_STEPS = cython.declare(cython.int, 16)  # views, conversions and choices that the analysis follows

# What PyTorch says of the index {0} for a dimension of size {1}, by the name of the function.
_IN_SELF = "index out of range in self"
_OUT_OF_BOUNDS = "index {0} is out of bounds for dimension {2} with size {1}"
_OUT_OF_RANGE = {
    "embedding": _IN_SELF,
    "index_add": _IN_SELF,  # along the first dimension: PyTorch has another text for vectors
    "index_copy": "index_copy_(): index {0} is out of bounds for dimension {2} with size {1}",
    "index_reduce": _IN_SELF,
    "index_select": _IN_SELF,
    "multi_margin_loss": "target out of range",
    "multilabel_margin_loss": "argument #2 'target' is out of range",
    "nll_loss": "Target {0} is out of bounds.",
    "one_hot": "Class values must be smaller than num_classes.",
    "put_": "out of range: tried to access index {0} on a tensor of {1} elements.",
    "take": "out of range: tried to access index {0} on a tensor of {1} elements.",
}


@cython.cfunc
@cython.exceptval(check=False)
def within(index: Node, size: cython.longlong) -> cython.bint:
    """True if all elements of a value are known to be valid positions in a dimension of `size`."""
    limit: cython.longlong = _index_limit(index, _STEPS)
    return index.numel == 0 or 0 < limit <= size


@cython.cfunc
@cython.exceptval(check=False)
def _index_limit(node: Node, steps: cython.int) -> cython.longlong:
    """The bound of what a value is a view of, or a choice among: of more elements perhaps, which does no harm."""
    low: cython.longlong = 0
    high: cython.longlong = 0
    source: Node
    while steps > 0 and node.max_index == 0 and node.state == PENDING and node.inputs:
        source = node.inputs[0]
        if node.op.index_bound == BY_REDUCED:
            return source.numel // node.numel if node.numel > 0 else 0
        if node.op.index_bound == BY_CHOICE:
            return _larger(
                _index_limit(node.inputs[1], steps // 2), _index_limit(node.inputs[2], steps // 2)
            )
        if not _keeps_elements(node, source):
            return 0
        node = source
        steps -= 1
    if node.state == PENDING and node.op.index_bound == BY_COUNT:
        return node.numel
    if (
        node.max_index == 0
        and node.state == DONE
        and scan(node, 0, node.numel, cython.address(low), cython.address(high))
    ):
        node.max_index = high + 1 if low >= 0 else -1
    return node.max_index


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _larger(one: cython.longlong, other: cython.longlong) -> cython.longlong:
    """The larger of two bounds, 0 where one is not known to be one."""
    return max(one, other) if one > 0 and other > 0 else 0


@cython.cfunc
@cython.exceptval(check=False)
def _keeps_elements(node: Node, source: Node) -> cython.bint:
    """True if a node has only elements of its operand: a view, or a conversion to int64."""
    if node.op.index_bound != BY_OPERAND:
        return False
    if node.op.kind == view_kind:
        return node.dtype is source.dtype
    return source.dtype.category == 1 and node.dtype.itemsize == 8


@cython.cfunc
@cython.exceptval(check=False)
def scan(
    node: Node,
    offset: cython.longlong,
    count: cython.longlong,
    low: cython.p_longlong,
    high: cython.p_longlong,
) -> cython.bint:
    """The least and the largest of some elements in a row of a value that is there; whether they could be read."""
    view: Py_buffer
    if node.dtype.category != 1 or count == 0:
        return False
    if node.op is scalar_op:
        low[0] = high[0] = node.params
        return True
    if node.dtype.itemsize < 4:
        return False
    start: cython.p_char = dense_elements(node, offset, count, cython.address(view))
    if start == cython.NULL:
        return False
    if node.dtype.itemsize == 8:
        _range_of(cython.cast(cython.pointer(int64_t), start), count, low, high)
    else:
        _range_of(cython.cast(cython.pointer(int32_t), start), count, low, high)
    PyBuffer_Release(cython.address(view))
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _range_of(
    values: cython.pointer(Whole),
    count: cython.longlong,
    low: cython.p_longlong,
    high: cython.p_longlong,
) -> cython.void:
    least: Whole = values[0]
    most: Whole = values[0]
    place: cython.longlong
    for place in range(count):
        least = min(least, values[place])
        most = max(most, values[place])
    low[0] = least
    high[0] = most


def assume_in_range(node: Node, size: cython.longlong):
    """All elements of a value are known to be positions within a dimension of a size."""
    if not 0 < node.max_index <= size:
        node.max_index = size


def range_error(name, values, size, dimension, wraps, where=None):
    """The error of an index outside its dimension: `values` is the index as an array, and `wraps` says whether
    negative positions count from the end."""
    least = -size if wraps else 0
    bad = (values < least) | (values >= size)
    flat = int(bad.reshape(-1).argmax()) if values.size else 0
    value = int(values.reshape(-1)[flat])
    place: list = []
    for extent in reversed(values.shape):
        place.insert(0, flat % extent)
        flat //= extent
    got = f"{value}" + (f" at position {place}" if place else "")
    words = _OUT_OF_BOUNDS
    if name != "index_add" or dimension == 0:
        words = _OUT_OF_RANGE.get(name, words)
    return IndexRangeError(
        words.format(value, size, dimension),
        where=where,
        expected=f"{least} <= index < {size}" if size else "no index: the dimension is empty",
        got=f"{got} of an index {list(values.shape)}",
        fix="check the index tensor: vocabulary size, off-by-one, padding value",
        operation=name,
    )
