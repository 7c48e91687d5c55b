# cython: language_level=3
"""Arithmetic on shapes and strides: contiguous strides, broadcasting, dense permutations, the strides of a reshape.

Strides count elements. These are pure functions on tuples; they know neither nodes nor tensors.
"""

import cython

from weft._build.compiled import require
from weft.errors import ShapeError

require(__name__, cython.compiled)


def contiguous_strides(shape: tuple) -> tuple:
    """Row-major strides; dimensions of size 0 count as 1, as PyTorch counts them."""
    if len(shape) == 1:
        return (1,)
    strides: list = [0] * len(shape)
    step: cython.longlong = 1
    axis: cython.Py_ssize_t
    for axis in range(len(shape) - 1, -1, -1):
        strides[axis] = step
        size: cython.longlong = shape[axis]
        if size > 1:
            step *= size
    return tuple(strides)


def is_contiguous(shape: tuple, strides: tuple) -> cython.bint:
    """True if elements are row-major without gaps in memory; dimensions of size 1 do not matter."""
    step: cython.longlong = 1
    axis: cython.Py_ssize_t
    for axis in range(len(shape)):
        if cython.cast(cython.longlong, shape[axis]) == 0:
            return True
    for axis in range(len(shape) - 1, -1, -1):
        size: cython.longlong = shape[axis]
        if size != 1:
            if cython.cast(cython.longlong, strides[axis]) != step:
                return False
            step *= size
    return True


def dense_order(shape: tuple, strides: tuple):
    """The permutation that sorts a dense, non-overlapping layout into memory order, or None where it is not one."""
    axes = sorted(range(len(shape)), key=lambda axis: (-strides[axis], -shape[axis], axis))
    step: cython.longlong = 1
    for axis in reversed(axes):
        if shape[axis] != 1:
            if strides[axis] != step:
                return None
            step *= max(shape[axis], 1)
    return tuple(axes)


@cython.ccall
def kept_strides(shape: tuple, strides):
    """The strides of a new value like one of these (None: row-major): the same where they are dense, else row-major."""
    return strides if strides is not None and dense_order(shape, strides) else None


def overlaps(shape: tuple, strides: tuple) -> bool:
    """True if two index tuples may name one element (by PyTorch's test: sorted strides must nest)."""
    pairs = sorted(
        (abs(stride), size) for size, stride in zip(shape, strides, strict=True) if size > 1
    )
    reach = 0
    for stride, size in pairs:
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


@cython.cfunc
def may_meet(shape: tuple, strides: tuple, other: tuple, distance: cython.longlong) -> cython.bint:
    """True if two regions of one shape may share elements, judged by their first and last ones. `other` are the
    strides of the second, which begins `distance` elements behind the first. Regions that coincide element by element
    do no harm: each element is read before it is written."""
    axis: cython.Py_ssize_t
    low: cython.longlong = 0
    high: cython.longlong = 0
    other_low: cython.longlong = distance
    other_high: cython.longlong = distance
    numel: cython.longlong = 1
    for axis in range(len(shape)):
        size: cython.longlong = shape[axis]
        numel *= size
        way: cython.longlong = cython.cast(cython.longlong, strides[axis]) * (size - 1)
        other_way: cython.longlong = cython.cast(cython.longlong, other[axis]) * (size - 1)
        low += min(way, 0)
        high += max(way, 0)
        other_low += min(other_way, 0)
        other_high += max(other_way, 0)
    return numel > 1 and low <= other_high and other_low <= high


def broadcast_shapes(shapes, name="broadcast"):
    """The common shape of operands, by NumPy's rule: the tuple of one of them where it has it. Errors: ShapeError."""
    rank: cython.Py_ssize_t = 0
    for shape in shapes:
        if len(shape) > rank:
            rank = len(shape)
    result: list = [1] * rank
    lead: cython.Py_ssize_t
    axis: cython.Py_ssize_t
    for shape in shapes:
        lead = rank - len(shape)
        # from the last on: an error names the last that does not fit, as PyTorch's
        for axis in range(len(shape) - 1, -1, -1):
            size: cython.longlong = shape[axis]
            if size != 1:
                have: cython.longlong = result[lead + axis]
                if have == 1:
                    result[lead + axis] = shape[axis]
                elif have != size:
                    raise _cannot_broadcast(name, shapes, have, size, lead + axis)
    common: tuple = tuple(result)
    for shape in shapes:
        if type(shape) is tuple and shape == common:
            return shape
    return common


@cython.cfunc
def common_shape(one: tuple, other: tuple, name: str) -> tuple:
    """`broadcast_shapes` of two. Errors: ShapeError."""
    longer: tuple = one
    shorter: tuple = other
    if len(other) > len(one):
        longer, shorter = other, one
    if _spreads(shorter, longer):
        return longer
    if len(one) == len(other) and _spreads(longer, shorter):
        return shorter
    return broadcast_shapes((one, other), name)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _spreads(shorter: tuple, longer: tuple) -> cython.bint:
    """True if `shorter` expands to `longer` by repeating elements, dimension by dimension from the last."""
    lead: cython.Py_ssize_t = len(longer) - len(shorter)
    axis: cython.Py_ssize_t
    for axis in range(len(shorter)):
        size: cython.longlong = shorter[axis]
        if size != 1 and size != cython.cast(cython.longlong, longer[lead + axis]):
            return False
    return True


def _cannot_broadcast(name: str, shapes, have: int, size: int, axis: int):
    return ShapeError(
        f"The size of tensor a ({have}) must match the size of tensor b ({size}) at "
        f"non-singleton dimension {axis}",
        expected="sizes that are equal, or 1, in each dimension counted from the last",
        got=" and ".join(str(list(s)) for s in shapes),
        fix="reshape, transpose or expand an operand so that the sizes line up",
        operation=name,
    )


def elementwise_strides(shape: tuple, operands) -> tuple | None:
    """The strides of an elementwise result: None (row-major), or dense in the order of the operands' strides, as
    PyTorch sorts them (a stride of 0 decides nothing). `operands` are (shape, strides or None)."""
    result = [0] * len(shape)
    step = 1
    for axis in fastest_first(shape, operands):
        result[axis] = step
        step *= max(shape[axis], 1)
    return None if is_contiguous(shape, tuple(result)) else tuple(result)


def fastest_first(shape: tuple, operands) -> list:
    """The dimensions in the order of the operands' strides, as PyTorch sorts them, the one that lies closest first."""
    rank = len(shape)
    layouts = [_aligned(shape, size, strides) for size, strides in operands if size]
    order = list(range(rank - 1, -1, -1))
    for place in range(1, rank):
        current = place
        for other in range(place - 1, -1, -1):
            decision = _compare(shape, layouts, order[other], order[current])
            if decision > 0:
                order[other], order[current] = order[current], order[other]
                current = other
            elif decision < 0:
                break
    return order


def _aligned(shape: tuple, size: tuple, strides) -> list:
    """The strides of an operand over the dimensions of the result: 0 where it is broadcast."""
    lead = len(shape) - len(size)
    if strides is None:
        strides = contiguous_strides(size)
    return [0] * lead + [
        0 if size[axis] == 1 and shape[lead + axis] != 1 else strides[axis]
        for axis in range(len(size))
    ]


def _compare(shape: tuple, layouts: list, first: int, second: int) -> int:
    """-1 where `first` is the faster dimension, 1 where `second` is, 0 where no operand decides."""
    for strides in layouts:
        a, b = strides[first], strides[second]
        if a == 0 or b == 0:
            continue
        if a != b:
            return -1 if a < b else 1
        if shape[first] > shape[second]:
            return 1
    return 0


def reshape_strides(shape: tuple, strides: tuple, target: tuple):
    """The strides of `target` over the same memory, or None where only a copy can do it."""
    if 0 in shape:
        return contiguous_strides(target)
    chunks: list = []  # maximal runs of dimensions that form one stride: (elements, stride of the last)
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if chunks and chunks[len(chunks) - 1][1] == stride * size:
            chunks[len(chunks) - 1] = (chunks[len(chunks) - 1][0] * size, stride)
        else:
            chunks.append((size, stride))
    result: list = [0] * len(target)
    axis = len(target) - 1
    for elements, stride in reversed(chunks):
        step = stride
        left = elements
        while left > 1 or (axis >= 0 and target[axis] == 1):
            if axis < 0 or target[axis] == 0 or left % target[axis]:
                return None
            result[axis] = step
            step *= target[axis]
            left //= target[axis]
            axis -= 1
    while axis >= 0:
        result[axis] = result[axis + 1] * target[axis + 1] if axis + 1 < len(target) else 1
        axis -= 1
    return tuple(result)


@cython.ccall
def expanded_strides(shape: tuple, strides: tuple, target: tuple) -> tuple:
    """Strides of a value of `shape` as one of the shape `target`: 0 along the dimensions that repeat it."""
    more: cython.Py_ssize_t = len(target) - len(shape)
    found: list = [0] * len(target)
    axis: cython.Py_ssize_t
    for axis in range(len(shape)):
        if shape[axis] != 1 or target[more + axis] == 1:
            found[more + axis] = strides[axis]
    return tuple(found)


def reordered(values: tuple, order: tuple) -> tuple:
    """Values of dimensions, the dimensions in another order."""
    return tuple([values[axis] for axis in order])


def inverse_order(order: tuple) -> tuple:
    """The order of dimensions that undoes another."""
    found: list = [0] * len(order)
    for place, axis in enumerate(order):
        found[axis] = place
    return tuple(found)
