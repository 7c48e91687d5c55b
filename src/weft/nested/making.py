"""Making ragged tensors, and dense ones of them: from lists, from values and offsets, from padded data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from weft import Tensor
from weft._typing import DeviceLike, Shape
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, class_name
from weft.nested.padding import to_padded
from weft.nested.rows import RaggedDim, indices, spans
from weft.nested.tensor import NestedTensor, shape_text
from weft.ops.primitives import take

if TYPE_CHECKING:
    from weft.tensor.layout import Layout


def _check_layout(name: str, layout: Layout | None) -> None:
    if layout not in (None, weft.jagged, weft.strided):
        raise ArgumentError(
            f"{name}: layout {layout}",
            expected="weft.jagged",
            got=repr(layout),
            fix="leave it out: every ragged tensor is jagged",
        )


def nested_tensor(
    tensor_list: list[Tensor],
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:
    """A ragged tensor with a copy of tensors (or numbers) as its items; a new leaf.

    Shapes: n tensors of one rank, whose sizes may differ in any dimensions -> (n, ...). A list of lists of tensors has
    one ragged dimension more.
    Errors: RuntimeError for items of different ranks or types.
    """
    _check_layout("nested_tensor", layout)
    items = _items("nested_tensor", tensor_list, lambda item: weft.as_tensor(item))
    with weft.no_grad():
        made = _joined(items)
        values = made.packed.to(dtype) if dtype is not None else made.packed
        values = values.detach().clone()
    if requires_grad:
        values.requires_grad_()
    return made.like(values)


def as_nested_tensor(
    ts: Tensor | list[Tensor] | tuple[Tensor, ...],
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
) -> NestedTensor:
    """A ragged tensor of tensors that gradients flow back to. Shapes, Errors: as `nested_tensor`."""
    _check_layout("as_nested_tensor", layout)
    if isinstance(ts, NestedTensor):
        return ts if dtype is None else ts.to(dtype)
    if isinstance(ts, Tensor):
        ts = list(ts.unbind())
    made = _joined(_items("as_nested_tensor", ts, _need_tensor))
    return made if dtype is None else made.to(dtype)


def _need_tensor(item: object) -> Any:
    if not isinstance(item, (Tensor, NestedTensor)):
        raise ArgumentTypeError(
            f"as_nested_tensor(): items must be tensors, not {class_name(item)}",
            expected="a list of tensors",
            got=type(item).__name__,
            fix="use nested_tensor, which copies",
        )
    return item


def _items(name: str, given: object, convert: object) -> list[Any]:
    if not isinstance(given, (list, tuple)):
        raise ArgumentTypeError(
            f"{name}(): Expected a list of tensors, got {type(given).__name__}",
            expected="a list of tensors",
            got=type(given).__name__,
            fix="pass a list",
        )
    items = [_nested_item(name, item, convert) for item in given]
    ranks = {item.ndim for item in items}
    types = {item.dtype for item in items}
    if len(ranks) > 1 or 0 in ranks:
        raise ShapeError(
            f"{name}(): All Tensors given must have the same dimension, of at least 1",
            expected="items of one rank, of at least 1",
            got=f"ranks {sorted(ranks)}",
            fix="unsqueeze some of them",
        )
    if len(types) > 1:
        raise DTypeError(
            f"{name}(): items of different types",
            expected="one dtype",
            got=", ".join(sorted(str(one) for one in types)),
            fix="convert them with .to(dtype)",
        )
    return items


def _nested_item(name: str, item: Tensor | list[Tensor | int], convert: Any) -> Any:
    """An item; a list of tensors is a ragged item."""
    if isinstance(item, (list, tuple)) and any(
        isinstance(part, (Tensor, NestedTensor, np.ndarray)) for part in item
    ):
        return _joined(_items(name, item, convert))
    return item if isinstance(item, NestedTensor) else convert(item)


def _joined(items: Sequence[Any]) -> NestedTensor:
    """Items of one rank and type as one ragged tensor."""
    if not items:
        return NestedTensor(weft.zeros(0), RaggedDim.of([]))
    if any(isinstance(item, NestedTensor) for item in items):
        return _joined_ragged(items)
    shapes = np.array([item.shape for item in items], dtype=np.int64)
    ragged = [dim for dim in range(shapes.shape[1]) if (shapes[:, dim] != shapes[0, dim]).any()]
    ragged = ragged or [0]
    inner = [dim for dim in range(shapes.shape[1]) if dim not in ragged]
    order = [*ragged, *inner]
    straight = order == sorted(order)
    parts = [
        (item if straight else item.permute(*order)).flatten(0, len(ragged) - 1) for item in items
    ]
    rows = RaggedDim.of(shapes[:, ragged[0]])
    for dim in ragged[1:]:
        rows = rows.below(shapes[:, dim])
    values = weft.cat(parts)
    return NestedTensor(values, rows, tuple(dim + 1 for dim in ragged))


def _joined_ragged(items: Sequence[NestedTensor]) -> NestedTensor:
    """Ragged items, one below the other: dimension 1 counts their items."""
    ragged = [
        item if isinstance(item, NestedTensor) else _joined(list(item.unbind())) for item in items
    ]
    if any(item.dims != ragged[0].dims for item in ragged):
        raise ShapeError(
            "ragged items whose ragged dimensions differ",
            expected="the same dimensions ragged in every item",
            got="; ".join(shape_text(item) for item in ragged),
            fix="make all items with nested_tensor from lists of one depth",
        )
    rows = RaggedDim.of([len(item) for item in ragged])
    for level in range(ragged[0].rows.depth):
        rows = RaggedDim.of(
            np.concatenate([item.rows.levels[level].lengths for item in ragged]), rows
        )
    values = weft.cat([item.packed for item in ragged])
    return NestedTensor(values, rows, (1, *(dim + 1 for dim in ragged[0].dims)))


# -- from values -----------------------------------------------------------------------------------


def _host(name: str, given: object) -> np.ndarray:
    """Offsets or lengths, read to the host."""
    found = np.asarray(given.tolist() if isinstance(given, Tensor) else given)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise ArgumentError(
            f"{name} must be a vector of integers",
            expected="a 1-d int64 tensor",
            got=f"shape {list(found.shape)} of {found.dtype}",
            fix="pass such as weft.tensor([0, 3, 5])",
        )
    return found.astype(np.int64)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """A ragged tensor of concatenated values; gradients flow back to them.

    Shapes: values (total, *), offsets (B + 1) and/or lengths (B) -> (B, j, *). With both, item i has lengths[i]
    entries from offsets[i] on, and entries in between are left out. `jagged_dim` is the ragged dimension of the
    result. Errors: RuntimeError if offsets and lengths do not fit the values."""
    dim = 1 if jagged_dim is None else jagged_dim
    if offsets is None and lengths is None:
        raise ArgumentError(
            "nested_tensor_from_jagged(): At least one of offsets or lengths is required.",
            expected="offsets or lengths",
            got="neither",
            fix="pass offsets=weft.tensor([0, ...])",
        )
    packed = values.movedim(dim - 1, 0) if dim != 1 else values
    total = packed.shape[0]
    if offsets is None:
        counts = _host("lengths", lengths)
        starts = np.cumsum(counts) - counts
    else:
        bounds = _host("offsets", offsets)
        starts = bounds[:-1]
        counts = np.diff(bounds) if lengths is None else _host("lengths", lengths)
        if len(bounds) == 0:
            starts = bounds
    whole = offsets is None or lengths is None
    _check_bounds(starts, counts, total, whole)
    rows = RaggedDim.of(counts)
    if rows.total != total or (starts != rows.offsets[:-1]).any():
        packed = take(packed, 0, indices(spans(starts, counts)))
    return NestedTensor(packed, rows, (dim,))


def _check_bounds(starts: np.ndarray, counts: np.ndarray, total: int, whole: bool) -> None:
    ends = starts + counts if len(starts) == len(counts) else np.array([-1])
    wrong = (
        len(starts) != len(counts)
        or bool((counts < 0).any())
        or bool((starts < 0).any())
        or bool((ends > total).any())
        or (whole and int(ends.max(initial=0)) != total)
        or (whole and len(starts) > 0 and starts[0] != 0)
    )
    if wrong:
        raise ShapeError(
            "nested_tensor_from_jagged(): offsets and lengths do not describe the values",
            expected=f"parts of {total} entries" + (", all of them" if whole else ""),
            got=f"starts {starts.tolist()[:8]}, lengths {counts.tolist()[:8]}",
            fix="offsets begin with 0 and end with values.shape[0]; lengths sum to it",
        )


# -- from padded data ------------------------------------------------------------------------------


def nested_tensor_from_padded(padded: Tensor, lengths: Tensor, dim: int = 1) -> NestedTensor:
    """The first lengths[i] entries of each item along a dimension; gradients flow back to the padded tensor.

    Shapes: (B, longest, *), (B) -> (B, j, *).
    """
    return narrow(padded, dim, 0, lengths, layout=weft.jagged)


def to_padded_tensor(input: NestedTensor, padding: float, output_size: Shape | None = None) -> Any:
    """A dense tensor in which short items are filled up with `padding`.

    Shapes: (B, j, *) -> (B, longest, *), or `output_size`, which must not be smaller.
    """
    if not isinstance(input, NestedTensor):
        return input
    if output_size is None:
        return to_padded(input, padding)
    sizes = [output_size[dim] for dim in input.dims]
    least = [int(level.lengths.max(initial=0)) for level in input.rows.levels]
    rest = [output_size[dim] == input.size(dim) for dim in (0, *input.uniform)]
    if (
        len(output_size) != input.ndim
        or not all(rest)
        or any(a < b for a, b in zip(sizes, least, strict=True))
    ):
        raise ShapeError(
            "Value in output_size is less than NestedTensor padded size. Truncation is not supported.",
            expected=f"at least the longest of {shape_text(input)}",
            got=str(list(output_size)),
            fix="leave output_size out",
        )
    return to_padded(input, padding, sizes)


def narrow(
    tensor: Any, dim: int, start: Tensor | int, length: Tensor, layout: Layout | None = weft.strided
) -> Any:
    """Part of each item of a dense tensor along a dimension, as a ragged tensor.

    Shapes: (B, longest, *); start and length are numbers or vectors (B) -> (B, j, *).
    """
    if isinstance(tensor, NestedTensor):
        return tensor.narrow(dim, start, length)
    place = dim % tensor.ndim
    count, size = tensor.shape[0], tensor.shape[place]
    if place == 0:
        raise ArgumentError(
            "narrow(): the batch cannot be ragged",
            expected="dim >= 1",
            got="dim=0",
            fix="slice the batch",
        )
    starts = _per_item("start", start, count)
    lengths = _per_item("length", length, count)
    if (starts < 0).any() or (lengths < 0).any() or (starts + lengths > size).any():
        raise ShapeError(
            f"start + length exceeds dimension size ({size}), or is negative",
            expected=f"parts of {size} entries",
            got=f"starts {starts.tolist()[:8]}, lengths {lengths.tolist()[:8]}",
            fix="check the lengths",
        )
    packed = (tensor if place == 1 else tensor.movedim(place, 1)).flatten(0, 1)
    index = indices(spans(np.arange(count) * size + starts, lengths))
    return NestedTensor(take(packed, 0, index), RaggedDim.of(lengths), (place,))


def _per_item(name: str, given: Tensor | int, count: int) -> np.ndarray:
    if isinstance(given, int):
        return np.full(count, given)
    found = _host(name, given)
    if len(found) != count:
        raise ShapeError(
            f"narrow(): {name} has {len(found)} numbers for {count} items",
            expected=f"{count} numbers",
            got=str(len(found)),
            fix="pass one per item",
        )
    return found


def masked_select(tensor: Tensor, mask: Tensor) -> NestedTensor:
    """The entries of each item where a mask holds, as a ragged tensor. The mask is read.

    Shapes: (B, L, *) and a bool mask (B, L, *) that broadcasts -> (B, j): as many as the mask has in each item.
    """
    if isinstance(tensor, NestedTensor):
        return keep_where(tensor, mask)
    if mask.dtype is not weft.bool:
        raise DTypeError(
            f"expected mask to be of bool type but got {mask.dtype}",
            expected="a bool mask",
            got=str(mask.dtype),
            fix="compare: mask != 0",
        )
    shape = weft.broadcast_shapes(tensor.shape, mask.shape)
    wide = np.broadcast_to(mask.numpy(), shape)
    lengths = wide.reshape(shape[0], -1).sum(1)
    index = indices(np.flatnonzero(wide.ravel()))
    return NestedTensor(take(tensor.expand(shape).reshape(-1), 0, index), RaggedDim.of(lengths))


def keep_where(tensor: NestedTensor, mask: Any) -> NestedTensor:
    """The entries of a ragged tensor where a ragged mask over its ragged dimension holds. The mask is read."""
    if mask.rows is not tensor.rows or mask.packed.ndim != 1:
        raise ShapeError(
            "masked_select(): the mask does not fit",
            expected=f"a ragged bool mask (B, j) with the lengths of {shape_text(tensor)}",
            got=shape_text(mask) if isinstance(mask, NestedTensor) else str(list(mask.shape)),
            fix="compare a ragged tensor of one value per entry",
        )
    kept = np.flatnonzero(mask.packed.numpy())
    level = tensor.rows
    lengths = np.bincount(level.ancestors(level.depth - 1)[kept], minlength=len(level.lengths))
    return NestedTensor(
        take(tensor.packed, 0, indices(kept)), RaggedDim.of(lengths, level.parent), tensor.dims
    )
