# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Advanced indices: several index tensors joined into one linear index, for one `take` or `take_put`.

A tensor and (dimension, index) pairs come in. Indices known on the host (lists, arrays, masks) are checked here,
those in tensors when the kernel runs. Which parts of an index are views is `indexing`'s business.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import cython
import numpy as np

from weft._build.compiled import require
from weft.engine.frontend.inplace import memory_behind, mutate
from weft.engine.frontend.recorder import cast, record
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.views import logical_strides
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import broadcast_shapes
from weft.errors import ShapeError, TensorIndexError
from weft.functional.elementwise.comparison import fill_value
from weft.functional.indexing.positions import first_outside, positions
from weft.functional.support import host
from weft.functional.support.index_bounds import COUNTED, UNKNOWN, check_index, trusted
from weft.ops import OPS
from weft.ops.primitives import expand, full, iota, permute, reshape, take_add, take_put, where
from weft.ops.registry import named
from weft.tensor.arguments import Shape, describe
from weft.tensor.memory.host_memory import write_where_it_lies

if TYPE_CHECKING:
    from weft._typing import Array, TensorLike


require(__name__, cython.compiled)

_INDEX = named(OPS["take"], "IndexBackward0")


class _Part(NamedTuple):
    """One index: the dimensions that it is about, itself (a tensor or an array on the host), whether it comes from a
    mask, so that it is in range."""

    axes: tuple[int, ...]
    index: Any
    masked: bool


def _part(x: Tensor, axis: int, item: Tensor | Array) -> _Part:
    """A mask becomes the row-major places where it holds, in all dimensions that it covers; what else there is stays.
    Errors: TensorIndexError for a mask of another shape."""
    mask = _mask_of(x, axis, item)
    if mask is None:
        return _Part((axis,), item, False)
    return _Part(tuple(range(axis, axis + mask.ndim)), mask.reshape(-1).nonzero()[0], True)


def _mask_of(x: Tensor, axis: int, item: Tensor | Array) -> Any:
    """The elements of a mask for the dimensions from an axis on; None: an index of positions. Errors:
    TensorIndexError for a mask of another shape."""
    if isinstance(item, Tensor):
        if item._dtype is not dtypes.bool_ and item._dtype is not dtypes.uint8:
            return None
        values = host.to_numpy(item)
        mask = values if item._dtype is dtypes.bool_ else values.astype(bool)
    elif item.dtype.kind != "b":
        return None
    else:
        mask = item
    if mask.shape != x._shape[axis : axis + mask.ndim]:
        raise _wrong_mask(x, axis, mask.shape)
    return mask


def _wrong_mask(x: Tensor, axis: int, shape: Shape) -> TensorIndexError:
    place = next((k for k, size in enumerate(shape) if size != x._shape[axis + k]), 0)
    return TensorIndexError(
        f"The shape of the mask {list(shape)} at index {place} does not match the shape of the indexed tensor "
        f"{list(x._shape)} at index {axis + place}",
        expected="a mask of the shape of the dimensions that it covers",
        got=f"mask {list(shape)}",
        fix="expand or reshape the mask",
    )


def _check_host(index: Array, size: int, axis: int) -> Any:
    """A host index with negatives wrapped. Errors: TensorIndexError out of range."""
    counted = np.array(index, np.int64, order="C")
    bad = first_outside(counted, size)
    if bad < 0:
        return counted
    _need_places([size], index.shape)
    number = index.reshape(-1)[bad]
    raise TensorIndexError(
        f"index {number} is out of bounds for dimension {axis} with size {size}",
        expected=f"-{size} <= index < {size}",
        got=str(number),
        fix="check the indices",
    )


def _need_places(sizes: list[int], index_shape: Shape) -> None:
    """Errors: TensorIndexError where there is something to choose, and nothing to choose from: a result without
    elements would not tell when it runs."""
    if 0 in sizes and 0 not in index_shape:
        raise TensorIndexError(
            "index is out of bounds for dimension with size 0",
            expected="no index into a dimension without elements",
            got=f"indices of shape {list(index_shape)}",
            fix="check the shape of the indexed tensor",
        )


def wrapped(name: str, index: Tensor, size: int, dimension: int) -> Any:
    """An index tensor in int64, its negative positions counted from the end where there may be some; what is out of
    range stays out of range. Errors: IndexRangeError where that can be seen."""
    known = check_index(name, index, size, dimension, True)
    index = cast(index, dtypes.int64)
    if known == COUNTED:
        return index
    places = where(index < 0, index + size, index)
    return places if known == UNKNOWN else trusted(places, size)


def fits(shape: Shape, target: Shape) -> bool:
    """True if a shape broadcasts to a target."""
    try:
        return bool(broadcast_shapes([shape, target]) == target)
    except ShapeError:
        return False


def _broadcast_error(parts: list[_Part]) -> TensorIndexError:
    shapes = [list(_shape_of(part)) for part in parts for _ in part.axes]
    return TensorIndexError(
        "shape mismatch: indexing tensors could not be broadcast together with shapes "
        + ", ".join(str(shape) for shape in shapes),
        expected="index shapes that broadcast",
        got=str(shapes),
        fix="reshape the indices",
    )


def _shape_of(part: _Part) -> Shape:
    index = part.index
    return tuple(index.shape) if isinstance(index, np.ndarray) else index._shape


def _linear(name: str, parts: list[_Part], sizes: list[int]) -> tuple[Any, Shape]:
    """One index into the joined dimensions, and its shape; `sizes` are how many places each part chooses from."""
    try:
        shape = broadcast_shapes([_shape_of(part) for part in parts])
    except ShapeError:
        raise _broadcast_error(parts) from None
    checked = [
        _check_host(part.index, size, part.axes[0])
        if isinstance(part.index, np.ndarray) and not part.masked
        else part.index
        for part, size in zip(parts, sizes, strict=True)
    ]
    axes = [part.axes[0] for part in parts]
    if all([isinstance(index, np.ndarray) for index in checked]):
        total = checked[0]
        for index, size in zip(checked[1:], sizes[1:], strict=True):
            total = total * size + index
        return host.from_numpy(
            total if total.shape == shape else np.broadcast_to(total, shape)
        ), shape
    tensors = [index if isinstance(index, Tensor) else host.from_numpy(index) for index in checked]
    if len(tensors) == 1:
        return wrapped(name, tensors[0], sizes[0], axes[0]), shape
    linear = _join(name, tensors, sizes, axes)
    return (expand(linear, shape) if linear._shape != shape else linear), shape


def _join(name: str, tensors: list[Tensor], sizes: list[int], axes: list[int]) -> Any:
    """Row-major position of several indices. What is pending is checked one by one, when it has run."""
    total: Any = None
    everything = 1
    for index, size, axis in zip(tensors, sizes, axes, strict=True):
        everything *= size
        place = wrapped(name, index, size, axis)
        if check_index(name, index, size, axis, True) == UNKNOWN:
            place = _checked(place, size, axis)
        total = place if total is None else total * size + place
    return trusted(total, everything)


def _checked(place: Tensor, size: int, axis: int) -> Any:
    """The same positions by way of a `take` from 0, 1, ..., which fails for this index where it is out of range."""
    positions = iota((*(1,) * axis, size))
    taken = record(_INDEX, (positions, place), (axis,), (*(1,) * axis, *place._shape), dtypes.int64)
    return reshape(taken, place._shape)


def gather_rows(x: Tensor, index: Tensor) -> Any:
    """x[index] for a single tensor of positions."""
    _need_places([x._shape[0]], index._shape)
    places = wrapped("x[index]", index, x._shape[0], 0)
    shape = (*places._shape, *x._shape[1:])
    return record(_INDEX, (x, places), (0,), shape, x._dtype)


def regrouped(x: Tensor, shape: Shape) -> Any:
    """The elements in another shape; of memory that others can write a view, since a value would be a copy of it."""
    shared = x._storage is not None and x._storage.foreign is not None and x.strides is None
    return x.view(shape) if shared else reshape(x, shape)


class ResolvedIndex:
    """An advanced index resolved on a view: which dimensions are joined, in which order (None: as they are), at which
    linear index."""

    order: Shape | None

    def __init__(self, name: str, x: Tensor, pairs: list[tuple[int, object]]) -> None:
        if len(pairs) == 1:
            axis, item = pairs[0]
            self._take_one(name, x, axis, item)
        else:
            self._join_several(name, x, [_part(x, axis, item) for axis, item in pairs])

    def _take_one(self, name: str, x: Tensor, axis: int, item: Tensor | Array) -> None:
        """The dimensions stay in order: one is indexed, or those that a mask covers."""
        shape = x._shape
        mask = _mask_of(x, axis, item)
        stop = axis + (1 if mask is None else mask.ndim)
        size = shape[axis] if stop == axis + 1 else math.prod(shape[axis:stop])
        if mask is not None:
            self.index = positions(mask)
        elif isinstance(item, Tensor):
            self.index = wrapped(name, item, size, axis)
        else:
            self.index = host.from_numpy(_check_host(item, size, axis))
        self.index_shape = self.index._shape
        if size == 0:
            _need_places([size], self.index_shape)
        self.order, self.first, self.shape = None, axis, shape
        self.joined = shape if stop == axis + 1 else (*shape[:axis], size, *shape[stop:])
        self.result = shape[:axis] + self.index_shape + shape[stop:]

    def _join_several(self, name: str, x: Tensor, parts: list[_Part]) -> None:
        """The dimensions that are indexed become one: the first, where they are not adjacent."""
        axes = [axis for part in parts for axis in part.axes]
        adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
        rest = [axis for axis in range(len(x._shape)) if axis not in axes]
        self.first = axes[0] if adjacent else 0
        order = tuple(rest[: self.first] + axes + rest[self.first :])
        self.order = None if order == tuple(range(len(order))) else order
        self.shape = tuple([x._shape[axis] for axis in order])
        sizes = [math.prod([x._shape[axis] for axis in part.axes]) for part in parts]
        self.index, self.index_shape = _linear(name, parts, sizes)
        _need_places(sizes, self.index_shape)
        stop = self.first + len(axes)
        self.joined = (*self.shape[: self.first], math.prod(sizes), *self.shape[stop:])
        self.result = (*self.shape[: self.first], *self.index_shape, *self.shape[stop:])

    def values(self, x: Tensor) -> Any:
        """x[index]."""
        if self.order is None:
            flat = x if self.joined == x._shape else regrouped(x, self.joined)
        else:
            flat = reshape(permute(x, self.order), self.joined)
        return record(_INDEX, (flat, self.index), (self.first,), self.result, x._dtype)

    def assign(self, x: Tensor, new: TensorLike, accumulate: bool) -> None:
        """Store (or add) a value at the index, in place; it loses leading 1s and broadcasts. Errors: ShapeError."""
        number = not isinstance(new, Tensor)
        source = full((), fill_value(x._dtype, new), x._dtype) if number else cast(new, x._dtype)
        shape = source._shape
        while len(shape) > len(self.result) and shape[0] == 1:
            shape = shape[1:]
        if not fits(shape, self.result):
            raise ShapeError(
                f"shape mismatch: value tensor of shape {list(source._shape)} cannot be broadcast to indexing "
                f"result of shape {list(self.result)}",
                expected=f"a value that broadcasts to {list(self.result)}",
                got=describe("value", source),
                fix="reshape the value",
            )
        source = expand(reshape(source, shape), self.result)
        if x._storage is not None and x._storage.foreign is not None:

            def update(region: Tensor) -> None:
                self._assign(region, source, accumulate)

            if write_where_it_lies(x, (source, self.index), update):
                return
        self._assign(x, source, accumulate)

    def _assign(self, x: Tensor, source: Tensor, accumulate: bool) -> None:
        """x with source stored (or added) at the index, in place."""
        if not self._put_in_memory(x, source, accumulate):
            mutate(x, self._put(x, source, accumulate))

    def _put(self, x: Tensor, source: object, accumulate: bool) -> Any:
        """x with source stored (or added) at the index."""
        ordered = x if self.order is None else permute(x, self.order)
        write = take_add if accumulate else take_put
        flat = write(reshape(ordered, self.joined), self.first, self.index, source)
        if self.order is None:
            return reshape(flat, self.shape)
        back = [0] * len(self.order)
        for place, axis in enumerate(self.order):
            back[axis] = place
        return permute(reshape(flat, self.shape), tuple(back))

    def _put_in_memory(self, x: Tensor, source: object, accumulate: bool) -> bool:
        """The same if every dimension of a view is indexed: elements are written in place, and the view's other
        elements are not touched. False if that is not possible."""
        some = len(self.joined) == 1 and self.joined[0] > 0
        whole = memory_behind(x, source) if some else None
        if whole is None:
            return False
        flat = reshape(whole, (math.prod(whole._shape),))
        write = take_add if accumulate else take_put
        flat = write(flat, 0, self._in_memory(x, flat._shape[0]), source)
        mutate(whole, reshape(flat, whole._shape))
        return True

    def _in_memory(self, x: Tensor, size: int) -> Any:
        """The linear index as one into the storage of a view."""
        place, count = self.index, self.joined[0]
        if check_index("x[index] = value", place, count, 0, False) == UNKNOWN:
            place = _checked(place, count, 0)
        total: Any = x.offset
        for extent, step in _merged(x._shape, logical_strides(x)):
            count //= extent
            part = place // count if count > 1 else place
            part = part if extent * count == self.joined[0] else part % extent
            total = part * step + total
        return trusted(total, size)


def _merged(shape: Shape, strides: Shape) -> list[tuple[int, int]]:
    """(size, stride) of dimensions, those as one over which elements go on in equal steps."""
    found: list[tuple[int, int]] = []
    for size, stride in zip(shape, strides, strict=True):
        if found and found[-1][1] == size * stride:
            size *= found.pop()[0]
        found.append((size, stride))
    return found
