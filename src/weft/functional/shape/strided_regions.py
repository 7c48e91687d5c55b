# ruff: noqa: A001, A002 - PyTorch's names
"""Strides: contiguity, offsets, strided regions of storages, and the region that a chain of views covers.

The recorder asks `region` when an in-place operation on a view must become a region of its base.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft._build.lazy import later
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.views import handle_of_storage, logical_strides, storage_of
from weft.engine.frontend.views import view as record_view
from weft.engine.ir.strides import contiguous_strides, dense_order
from weft.engine.ir.strides import is_contiguous as row_major
from weft.errors import ArgumentError, ShapeError
from weft.functional.shape.views import permuted
from weft.ops import OPS
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import put
from weft.tensor.arguments import Shape, sizes, wrap_dim
from weft.tensor.layout import format_strides

if TYPE_CHECKING:
    from weft.tensor.layout import MemoryFormat


forward_ad = later("weft.autograd.forward_ad")
_STRIDED = OPS["strided"]


def _twice(strides: Shape) -> Shape:
    return tuple([2 * stride for stride in strides])


# For each view transform: strides and offset of the view, in elements of the view.
_TRANSFORMED: dict[str, Any] = {
    "conj": lambda strides, offset: (strides, offset),
    "real": lambda strides, offset: (_twice(strides), 2 * offset),
    "imag": lambda strides, offset: (_twice(strides), 2 * offset + 1),
    "view_as_real": lambda strides, offset: ((*_twice(strides), 1), 2 * offset),
    "view_as_complex": lambda strides, offset: (
        tuple([stride // 2 for stride in strides[:-1]]),
        offset // 2,
    ),
}


def region(shape: Shape, view_chain: tuple[Any, ...]) -> tuple[int, Shape] | None:
    """Offset and strides, over row-major memory of `shape`, of what a chain of view rows covers; None where a row
    of the chain needs a copy."""
    strides, offset = contiguous_strides(shape), 0
    for op, params, target in view_chain:
        through = _TRANSFORMED.get(op.name)
        if through is not None:
            strides, offset = through(strides, offset)
        else:
            strides, offset = op.strides(params, shape, strides, offset)
        if strides is None:
            return None
        shape = target
    return offset, strides


def _memory_of(input: Tensor) -> Any:
    """The whole storage of a tensor as a row-major view, so that a region of it has the right gradient.

    A view that requires grad by itself, of a base that does not, stands for the storage alone.
    """
    base = input.base
    root = input if base is None or (input.requires_grad and not base.requires_grad) else base
    whole = storage_of(root).node.numel
    if math.prod(root._shape) != whole and (root.requires_grad or forward_ad.has_tangent(root)):
        return put(handle_of_storage(root), root, root.offset, logical_strides(root))
    if root.strides is None:
        return root
    order = dense_order(root._shape, root.strides)
    return root if order is None else permuted(root, order)


def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """A region of the storage with given strides. Errors: ArgumentError, ShapeError where it leaves the storage."""
    shape, strides = sizes((size,)), sizes((stride,))
    if len(shape) != len(strides):
        raise ShapeError(
            "mismatch in length of strides and shape",
            expected="one stride per size",
            got=f"{list(shape)}, {list(strides)}",
            fix="pass as many strides as sizes",
        )
    if min(shape, default=0) < 0:
        raise ShapeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(strides)}",
            expected="sizes >= 0",
            got=str(list(shape)),
            fix="pass the number of elements along each dimension",
        )
    if min(strides, default=0) < 0:
        raise ArgumentError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(strides)}",
            expected="strides >= 0",
            got=str(list(strides)),
            fix="use flip",
        )
    storage = storage_of(input)
    offset = input.offset if storage_offset is None else storage_offset
    last = offset + sum((count - 1) * step for count, step in zip(shape, strides, strict=True))
    bytes_each = input._dtype.itemsize
    held = storage.node.numel * storage.node.dtype.itemsize
    if offset < 0:
        raise ShapeError(
            f"Tensor: invalid storage offset {offset}",
            expected="an offset of 0 or more",
            got=str(offset),
            fix="count from the first element of the memory",
        )
    if 0 not in shape and last >= held // bytes_each:
        raise ShapeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, and itemsize "
            f"{bytes_each} requiring a storage size of {(last + 1) * bytes_each} are out of bounds for storage of "
            f"size {held}",
            expected=f"elements 0 to {held // bytes_each - 1}",
            got=f"up to element {last}",
            fix="shorten the shape or the strides",
        )
    return record_view(_STRIDED, _memory_of(input), (offset, strides), shape, strides, offset)


def is_contiguous(input: Tensor, *, memory_format: object = None) -> bool:
    """True if elements are row-major without gaps in memory."""
    if str(memory_format).endswith("channels_last"):
        return len(input._shape) == 4 and _is_channels_last(input)
    return input.strides is None


def _is_channels_last(input: Tensor) -> bool:
    order = (0, 2, 3, 1)
    strides = logical_strides(input)
    return bool(row_major(tuple(input._shape[a] for a in order), tuple(strides[a] for a in order)))


def contiguous(input: Tensor, *, memory_format: MemoryFormat | None = None) -> Any:
    """The tensor itself if it is contiguous (or in the named format), a copy that is otherwise."""
    strides = None if memory_format is None else format_strides(input._shape, memory_format)
    if input.strides == strides:
        return input
    copy = call("clone", input)
    copy.strides = strides
    return copy


def stride(input: Tensor, dim: int | None = None) -> Any:
    """The strides in elements, or that of one dimension."""
    strides = logical_strides(input)
    return strides if dim is None else strides[wrap_dim(dim, len(strides))]


def storage_offset(input: Tensor) -> int:
    """The position of the first element in the storage."""
    return int(input.offset)


FUNCTIONS: dict[str, Any] = {"as_strided": as_strided}
METHODS: dict[str, Any] = {
    "as_strided": as_strided,
    "is_contiguous": is_contiguous,
    "contiguous": contiguous,
    "stride": stride,
    "storage_offset": storage_offset,
}
HOOKS = {"region": region}
