# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Advanced indices: several index tensors joined into one linear index, for one `take` or `take_put`.

A tensor and (dimension, index) pairs come in. Indices known on the host (lists, arrays, masks) are checked here,
those in tensors when the kernel runs. Which parts of an index are views is `indexing`'s business.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np

from weft._compiled import require
from weft.errors import ShapeError, TensorIndexError
from weft.functional import host
from weft.functional.arguments import Shape
from weft.functional.ranges import COUNTED, UNKNOWN, check_index, trusted
from weft.graph import dtype as dtypes
from weft.graph.recording import cast, record
from weft.graph.strides import broadcast_shapes
from weft.graph.tensor import Tensor
from weft.ops import TABLE
from weft.ops.primitives import expand, iota, permute, reshape, take_add, take_put, where
from weft.ops.row import named

require(__name__, cython.compiled)

_INDEX = named(TABLE["take"], "IndexBackward0")


def _expand_masks(x: Any, pairs: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Masks replaced by the indices where they hold, one per dimension that they cover."""
    result: list[tuple[int, Any]] = []
    for axis, item in pairs:
        mask = item
        if isinstance(item, Tensor) and item._dtype in (dtypes.bool_, dtypes.uint8):
            mask = host.to_numpy(item).astype(bool)
        if isinstance(mask, np.ndarray) and mask.dtype.kind == "b":
            want = x._shape[axis : axis + mask.ndim]
            if mask.shape != want:
                raise _wrong_mask(x, axis, mask.shape)
            result.extend((axis + k, places) for k, places in enumerate(np.nonzero(mask)))
        else:
            result.append((axis, item))
    return result


def _wrong_mask(x: Any, axis: int, shape: Shape) -> TensorIndexError:
    place = next((k for k, size in enumerate(shape) if size != x._shape[axis + k]), 0)
    return TensorIndexError(
        f"The shape of the mask {list(shape)} at index {place} does not match the shape of the indexed tensor "
        f"{list(x._shape)} at index {axis + place}",
        expected="a mask of the shape of the dimensions that it covers",
        got=f"mask {list(shape)}",
        fix="expand or reshape the mask",
    )


def _check_host(index: Any, size: int, axis: int) -> Any:
    """A host index with negatives wrapped. Errors: TensorIndexError out of range."""
    if index.size and (index.max() >= size or index.min() < -size):
        bad = int(index.reshape(-1)[np.argmax((index >= size) | (index < -size))])
        raise TensorIndexError(
            f"index {bad} is out of bounds for dimension {axis} with size {size}",
            expected=f"-{size} <= index < {size}",
            got=str(bad),
            fix="check the indices",
        )
    return np.where(index < 0, index + size, index)


def wrapped(name: str, index: Any, size: int, dimension: int) -> Any:
    """An index tensor in int64, its negative positions counted from the end where there may be some; what is out of
    range stays out of range. Errors: IndexRangeError where that can be seen."""
    known = check_index(name, index, size, dimension, True)
    index = cast(index, dtypes.int64)
    if known == COUNTED:
        return index
    places = where(index < 0, index + size, index)
    return places if known == UNKNOWN else trusted(places, size)


def _broadcast_error(indices: list[Any]) -> TensorIndexError:
    shapes = [list(i.shape if isinstance(i, np.ndarray) else i._shape) for i in indices]
    return TensorIndexError(
        "shape mismatch: indexing tensors could not be broadcast together with shapes "
        + ", ".join(str(shape) for shape in shapes),
        expected="index shapes that broadcast",
        got=str(shapes),
        fix="reshape the indices",
    )


def _linear(name: str, indices: list[Any], sizes: Shape, axes: list[int]) -> tuple[Any, Shape]:
    """One index into the joined dimensions, and its shape."""
    shapes = [tuple(i.shape) if isinstance(i, np.ndarray) else i._shape for i in indices]
    try:
        shape = broadcast_shapes(shapes)
    except ShapeError:
        raise _broadcast_error(indices) from None
    checked = [
        _check_host(index, size, axis) if isinstance(index, np.ndarray) else index
        for index, size, axis in zip(indices, sizes, axes, strict=True)
    ]
    if all(isinstance(index, np.ndarray) for index in checked):
        total = np.zeros((), np.int64)
        for index, size in zip(checked, sizes, strict=True):
            total = total * size + index
        return host.from_numpy(np.broadcast_to(total, shape)), shape
    tensors = [index if isinstance(index, Tensor) else host.from_numpy(index) for index in checked]
    if len(tensors) == 1:
        return wrapped(name, tensors[0], sizes[0], axes[0]), shape
    linear = _join(name, tensors, sizes, axes)
    return (expand(linear, shape) if linear._shape != shape else linear), shape


def _join(name: str, tensors: list[Any], sizes: Shape, axes: list[int]) -> Any:
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


def _checked(place: Any, size: int, axis: int) -> Any:
    """The same positions by way of a `take` from 0, 1, ..., which fails for this index where it is out of range."""
    positions = iota((*(1,) * axis, size))
    taken = record(_INDEX, (positions, place), (axis,), (*(1,) * axis, *place._shape), dtypes.int64)
    return reshape(taken, place._shape)


class Gather:
    """An advanced index resolved on a view: which dimensions are joined, in which order, at which linear index."""

    def __init__(self, name: str, x: Any, pairs: list[tuple[int, Any]]) -> None:
        pairs = _expand_masks(x, pairs)
        axes = [axis for axis, _ in pairs]
        rank = len(x._shape)
        adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
        rest = [axis for axis in range(rank) if axis not in axes]
        self.first = axes[0] if adjacent else 0
        self.order = (*rest[: self.first], *axes, *rest[self.first :])
        self.shape = tuple([x._shape[axis] for axis in self.order])
        sizes = tuple([x._shape[axis] for axis in axes])
        self.index, self.index_shape = _linear(name, [item for _, item in pairs], sizes, axes)
        joined = 1
        for size in sizes:
            joined *= size
        stop = self.first + len(axes)
        self.joined = (*self.shape[: self.first], joined, *self.shape[stop:])
        self.result = (*self.shape[: self.first], *self.index_shape, *self.shape[stop:])

    def values(self, x: Any) -> Any:
        """x[index]."""
        flat = reshape(permute(x, self.order), self.joined)
        return record(_INDEX, (flat, self.index), (self.first,), self.result, x._dtype)

    def put(self, x: Any, source: Any, accumulate: bool) -> Any:
        """x with source stored (or added) at the index."""
        flat = reshape(permute(x, self.order), self.joined)
        write = take_add if accumulate else take_put
        flat = write(flat, self.first, self.index, source)
        back = [0] * len(self.order)
        for place, axis in enumerate(self.order):
            back[axis] = place
        return permute(reshape(flat, self.shape), tuple(back))
