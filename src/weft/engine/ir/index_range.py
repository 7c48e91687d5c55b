# cython: language_level=3
"""Value-range analysis of index tensors: whether all their elements are valid positions.

It takes integer nodes. A node's `max_index` is one more than its largest element if all are known to be at least 0,
and -1 if some are known not to be; it is found once. Of pending values the rows of the op table say which bounds follow
from those of the operands (`index_bound`). What the analysis cannot prove, the kernel checks.
"""

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBuffer_Release
from cython.cimports.libc.stdint import int32_t, int64_t
from cython.cimports.weft.engine.ir.elements import dense_elements
from cython.cimports.weft.engine.ir.index_range import Bounds
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
from weft.engine.ir.primitive import INDEX_BOUNDS
from weft.errors import IndexRangeError

require(__name__, cython.compiled)

Whole = cython.fused_type(int32_t, int64_t)

_STEPS = cython.declare(
    cython.int, 16
)  # views and conversions that it follows; half of it beyond other operations
_UNKNOWN = cython.declare(cython.longlong, 1 << 62)
_MOST = cython.declare(cython.longlong, 1 << 30)

_along = cython.declare(cython.int, INDEX_BOUNDS["along"])
_sum = cython.declare(cython.int, INDEX_BOUNDS["sum"])
_difference = cython.declare(cython.int, INDEX_BOUNDS["difference"])
_product = cython.declare(cython.int, INDEX_BOUNDS["product"])
_quotient = cython.declare(cython.int, INDEX_BOUNDS["quotient"])
_remainder = cython.declare(cython.int, INDEX_BOUNDS["remainder"])
_smaller = cython.declare(cython.int, INDEX_BOUNDS["smaller"])
_larger = cython.declare(cython.int, INDEX_BOUNDS["larger"])
_joined = cython.declare(cython.int, INDEX_BOUNDS["joined"])

# What PyTorch says of the index {0} for a dimension {2} of size {1}, by the name of the function.
_IN_SELF = "index out of range in self"
_OUT_OF_BOUNDS = "index {0} is out of bounds for dimension {2} with size {1}"
_NO_SUCH_ELEMENT = "out of range: tried to access index {0} on a tensor of {1} elements."
_OUT_OF_RANGE = {
    "embedding": _IN_SELF,
    "index_add": _IN_SELF,
    "index_copy": f"index_copy_(): {_OUT_OF_BOUNDS}",
    "index_reduce": _IN_SELF,
    "index_select": _IN_SELF,
    "multi_margin_loss": "target out of range",
    "multilabel_margin_loss": "argument #2 'target' is out of range",
    "nll_loss": "Target {0} is out of bounds.",
    "one_hot": "Class values must be smaller than num_classes.",
    "put_": _NO_SUCH_ELEMENT,
    "take": _NO_SUCH_ELEMENT,
}
_BEHIND_THE_FIRST = {"index_add": _OUT_OF_BOUNDS}  # what it says of other dimensions than the first


@cython.cfunc
@cython.exceptval(check=False)
def within(index: Node, size: cython.longlong) -> cython.bint:
    """True if all elements of a value are known to be valid positions in a dimension of `size`."""
    if 0 < index.max_index <= size or index.numel == 0:
        return True
    found: Bounds = _bounds_of(index, _STEPS)
    return found.low >= 0 and found.high < size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _between(low: cython.longlong, high: cython.longlong) -> Bounds:
    made: Bounds
    made.low = low
    made.high = high
    return made


@cython.cfunc
@cython.exceptval(check=False)
def _bounds_of(node: Node, steps: cython.int) -> Bounds:
    """The least and the largest element that a value may have, and perhaps wider ones: views and choices count with all
    elements of what they show. What is not known is beyond what positions can be."""
    source: Node
    while steps > 0 and node.max_index == 0 and node.state == PENDING and node.inputs:
        source = node.inputs[0]
        if not _keeps_elements(node, source):
            return _bounds_of_result(node, steps // 2)
        node = source
        steps -= 1
    if node.dtype.category == 0:
        return _between(0, 1)
    if node.max_index > 0:
        return _between(0, node.max_index - 1)
    if node.state == PENDING and node.op.index_bound == BY_COUNT:
        return _between(0, node.numel - 1)
    if node.max_index == 0 and node.state == DONE:
        return _seen(node)
    return _between(-_UNKNOWN, _UNKNOWN)


@cython.cfunc
@cython.exceptval(check=False)
def _seen(node: Node) -> Bounds:
    """The bounds of a value that is there; it is looked at once."""
    low: cython.longlong = -_UNKNOWN
    high: cython.longlong = _UNKNOWN
    if scan(node, 0, node.numel, cython.address(low), cython.address(high)):
        if not -_UNKNOWN < low <= high < _UNKNOWN:
            return _between(-_UNKNOWN, _UNKNOWN)
        if node.op is not scalar_op:
            node.max_index = high + 1 if low >= 0 else -1
    return _between(low, high)


@cython.cfunc
@cython.exceptval(check=False)
def _bounds_of_result(node: Node, steps: cython.int) -> Bounds:
    """The bounds of what a pending operation computes of its operands."""
    rule: cython.int = node.op.index_bound
    source: Node = node.inputs[0]
    if rule == BY_REDUCED and node.numel > 0:
        return _between(0, source.numel // node.numel - 1)
    if rule == BY_CHOICE:
        return _either(_bounds_of(node.inputs[1], steps), _bounds_of(node.inputs[2], steps))
    if rule == _along and source.shape:
        return _between(0, cython.cast(cython.longlong, source.shape[node.params[0]]) - 1)
    if rule <= BY_OPERAND or node.dtype.category != 1:
        return _between(-_UNKNOWN, _UNKNOWN)
    found: Bounds = _bounds_of(source, steps)
    number: cython.Py_ssize_t
    if rule == _joined:
        for number in range(1, len(node.inputs)):
            if number > steps:
                return _between(-_UNKNOWN, _UNKNOWN)
            found = _either(found, _bounds_of(node.inputs[number], steps // 2))
    else:
        found = _computed(rule, found, _bounds_of(node.inputs[1], steps))
    return found if _holds(node, found) else _between(-_UNKNOWN, _UNKNOWN)


@cython.cfunc
@cython.exceptval(check=False)
def _either(one: Bounds, other: Bounds) -> Bounds:
    """Bounds of elements of two values."""
    return _between(min(one.low, other.low), max(one.high, other.high))


@cython.cfunc
@cython.exceptval(check=False)
def _holds(node: Node, bounds: Bounds) -> cython.bint:
    """True if results within the bounds cannot wrap around in the type of a node."""
    if bounds.low < 0 and not node.dtype.is_signed:
        return False
    if node.dtype.itemsize == 8:
        return True
    limit: cython.longlong = 1
    limit <<= 8 * node.dtype.itemsize - 1
    return -limit <= bounds.low and bounds.high < limit


@cython.cfunc
@cython.exceptval(check=False)
def _computed(rule: cython.int, one: Bounds, other: Bounds) -> Bounds:
    """Interval arithmetic; where only bounds of positions matter, others than those are not known."""
    low: cython.longlong = -_UNKNOWN
    high: cython.longlong = _UNKNOWN
    if rule == _smaller:
        return _between(min(one.low, other.low), min(one.high, other.high))
    if rule == _larger:
        return _between(max(one.low, other.low), max(one.high, other.high))
    if rule == _remainder and other.low > 0:
        return _between(0, min(one.high, other.high - 1) if one.low >= 0 else other.high - 1)
    if not _is_known(one) or not _is_known(other):
        return _between(low, high)
    if rule == _sum:
        low, high = one.low + other.low, one.high + other.high
    elif rule == _difference:
        low, high = one.low - other.high, one.high - other.low
    elif rule == _product and one.low >= 0 and other.low >= 0:
        low, high = one.low * other.low, one.high * other.high
    elif rule == _quotient and one.low >= 0 and other.low > 0:
        low, high = one.low // other.high, one.high // other.low
    return _between(low, high)


@cython.cfunc
@cython.exceptval(check=False)
def _is_known(bounds: Bounds) -> cython.bint:
    """True if bounds are of positions, products of which 64 bits hold."""
    return bounds.low > -_MOST and bounds.high < _MOST


@cython.cfunc
@cython.exceptval(check=False)
def _keeps_elements(node: Node, source: Node) -> cython.bint:
    """True if a node has only elements of its operand: a view, a copy, or a conversion to int64."""
    if node.op.index_bound != BY_OPERAND:
        return False
    if node.op.kind == view_kind or node.dtype is source.dtype:
        return node.dtype is source.dtype
    return source.dtype.category <= 1 and node.dtype.category == 1 and node.dtype.itemsize == 8


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
    words = _OUT_OF_RANGE.get(name, _OUT_OF_BOUNDS)
    if dimension != 0:
        words = _BEHIND_THE_FIRST.get(name, words)
    return IndexRangeError(
        words.format(value, size, dimension),
        where=where,
        expected=f"{least} <= index < {size}" if size else "no index: the dimension is empty",
        got=f"{got} of an index {list(values.shape)}",
        fix="check the index tensor: vocabulary size, off-by-one, padding value",
        operation=name,
    )
