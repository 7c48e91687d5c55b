"""Indexing of ragged tensors: items, parts of rows, masks; and writing to them.

Which entries an index names is computed on the host, so that a result is one gather of the values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft import Tensor
from weft.engine.ir.strides import inverse_order
from weft.errors import NotDefinedError, ShapeError, TensorIndexError
from weft.nested.elementwise import fit, same_structure
from weft.nested.rows import RaggedDim, indices, spans
from weft.nested.tensor import NestedTensor, shape_text
from weft.ops.primitives import take


def _refuse(what: str, tensor: NestedTensor, expected: str) -> NotDefinedError:
    return NotDefinedError(
        f"a ragged tensor cannot be indexed {what}",
        expected=expected,
        got=f"a tensor of shape {shape_text(tensor)}",
        fix="index in several steps, or item by item with .unbind()",
    )


def _normal(tensor: NestedTensor, index: object) -> list[Any]:
    """An index per dimension."""
    given = list(index) if isinstance(index, tuple) else [index]
    if any(one is None for one in given):
        raise _refuse("with None", tensor, "integers, slices, tensors of places, masks")
    dots = [place for place, one in enumerate(given) if one is Ellipsis]
    if len(given) - len(dots) > tensor.ndim:
        raise TensorIndexError(
            f"too many indices for tensor of dimension {tensor.ndim}",
            expected=f"at most {tensor.ndim} indices",
            got=str(len(given)),
            fix="leave some out",
        )
    missing = [slice(None)] * (tensor.ndim - len(given) + len(dots))
    if dots:
        return [*given[: dots[0]], *missing, *given[dots[0] + 1 :]]
    return [*given, *missing]


def get(tensor: NestedTensor, index: object) -> Any:
    """tensor[index]. See `weft.nested` for what an index may be."""
    if isinstance(index, NestedTensor):
        return _masked(tensor, index)
    given = _normal(tensor, index)
    if _is_integer(given[0]):
        item = items_of(tensor)[_checked(given[0], len(tensor))]
        return item[tuple(given[1:])] if len(given) > 1 else item
    found: Any = _uniform(tensor, given)
    gone = 0
    for level, dim in enumerate(tensor.dims):
        one = given[dim]
        if isinstance(one, slice):
            found = found if one == slice(None) else part_of_rows(found, level - gone, one)
        elif _is_integer(one):
            found, gone = place_of_rows(found, level - gone, int(one)), gone + 1
        else:
            raise _refuse(
                "with places in a ragged dimension", tensor, "an integer or a slice there"
            )
    return _batch(found, given[0])


def _is_integer(value: Tensor | int | slice) -> bool:
    if isinstance(value, (Tensor, np.ndarray)):
        return value.ndim == 0 and value.dtype not in (weft.bool, np.dtype(bool))
    return hasattr(type(value), "__index__") and not isinstance(value, bool)


def _checked(index: int, size: int) -> int:
    place = int(index)
    if not -size <= place < size:
        raise TensorIndexError(
            f"index {place} is out of bounds for dimension 0 with size {size}",
            expected=f"an index from {-size} to {size - 1}",
            got=str(place),
            fix="check the number of items",
        )
    return place % size


def _masked(tensor: NestedTensor, mask: NestedTensor) -> Any:
    """tensor[mask]: the elements (or rows) where the mask holds, as a dense tensor."""
    if mask.dtype is not weft.bool or mask.rows is not tensor.rows or mask.dims != tensor.dims:
        raise _refuse("with this tensor", tensor, "a bool mask of the same structure")
    return tensor.packed[mask.packed]


def _uniform(tensor: NestedTensor, given: list[Tensor | int | slice]) -> NestedTensor:
    """The indices of uniform dimensions applied."""
    inner = [given[dim] for dim in tensor.uniform]
    if all(isinstance(one, slice) and one == slice(None) for one in inner):
        return tensor
    if sum(not isinstance(one, slice) and not _is_integer(one) for one in inner) > 1:
        raise _refuse("with several tensors", tensor, "a tensor of places in one dimension")
    for one in inner:
        if not isinstance(one, slice) and not _is_integer(one) and weft.as_tensor(one).ndim != 1:
            raise _refuse("with a matrix of places", tensor, "a vector of places")
    gone = [dim for dim in tensor.uniform if _is_integer(given[dim])]
    values = tensor.packed[(slice(None), *inner)]
    return NestedTensor(
        values, tensor.rows, tuple(own - sum(one < own for one in gone) for own in tensor.dims)
    )


def _below(
    rows: RaggedDim, level: int, places: np.ndarray, parent: RaggedDim | None
) -> tuple[RaggedDim | None, np.ndarray]:
    """The structure under chosen entries of a level, and where all entries under them are."""
    for deeper in rows.levels[level + 1 :]:
        lengths = deeper.lengths[places]
        parent = RaggedDim.of(lengths, parent)
        places = spans(deeper.offsets[places], lengths)
    return parent, places


def part_of_rows(tensor: NestedTensor, level: int, part: slice) -> NestedTensor:
    """tensor[:, a:b:c] on a ragged dimension: a part of each row."""
    own = tensor.rows.levels[level]
    sizes, which = np.unique(own.lengths, return_inverse=True)
    bounds = np.array(
        [part.indices(int(size)) for size in sizes] or np.zeros((0, 3)), dtype=np.int64
    )
    counts = np.array([len(range(*bound)) for bound in bounds.tolist()], dtype=np.int64)
    starts, steps, lengths = bounds[which, 0], bounds[which, 2], counts[which]
    within = spans(np.zeros_like(lengths), lengths)
    places = np.repeat(own.offsets[:-1] + starts, lengths) + within * np.repeat(steps, lengths)
    rows, entries = _below(tensor.rows, level, places, RaggedDim.of(lengths, own.parent))
    assert rows is not None
    return NestedTensor(take(tensor.packed, 0, indices(entries)), rows, tensor.dims)


def place_of_rows(tensor: NestedTensor, level: int, place: int) -> Any:
    """tensor[:, i] on a ragged dimension: one entry of each row."""
    own = tensor.rows.levels[level]
    short = own.lengths < (place + 1 if place >= 0 else -place)
    if short.any():
        row = int(np.argmax(short))
        raise TensorIndexError(
            f"index {place} is out of bounds for row {row}, which has {int(own.lengths[row])} entries",
            expected="an index inside every row",
            got=str(place),
            fix="leave short items out, or use a slice",
        )
    places = own.offsets[:-1] + place if place >= 0 else own.offsets[1:] + place
    rows, entries = _below(tensor.rows, level, places, own.parent)
    values = take(tensor.packed, 0, indices(entries))
    gone = tensor.dims[level]
    dims = tuple(one - (one > gone) for one in tensor.dims if one != gone)
    return values if rows is None else NestedTensor(values, rows, dims)


def _batch(found: Tensor | NestedTensor, index: Tensor | slice) -> Any:
    if isinstance(index, slice) and index == slice(None):
        return found
    if isinstance(found, Tensor):
        return found[index]
    items = np.arange(len(found))
    if isinstance(index, slice):
        items = items[index]
    else:
        chosen = np.asarray(index.tolist() if isinstance(index, Tensor) else index)
        if chosen.ndim != 1:
            raise _refuse(
                "with these items", found, "an integer, a slice, a vector of items or of bools"
            )
        try:
            items = items[chosen if len(chosen) else chosen.astype(np.int64)]
        except IndexError as error:
            raise TensorIndexError(
                str(error),
                expected=f"items of a batch of {len(found)}",
                got=str(chosen.tolist()),
                fix="check the indices",
            ) from None
    rows, entries = found.rows.select(items)
    return NestedTensor(take(found.packed, 0, indices(entries)), rows, found.dims)


# -- items -----------------------------------------------------------------------------------------


def items_of(tensor: NestedTensor) -> tuple[Any, ...]:
    """The items; views of the values."""
    sizes = np.diff(tensor.rows.starts()).tolist()
    if not sizes:
        return ()
    return tuple(
        _item(tensor, number, part) for number, part in enumerate(tensor.packed.split(sizes))
    )


def _item(tensor: NestedTensor, number: int, part: Tensor) -> Any:
    """One item: dense where its rows are equal."""
    order = tuple(dim - 1 for dim in (*tensor.dims, *tensor.uniform))  # where each axis belongs
    sizes = _sizes(tensor.rows, number)
    if sizes is not None:
        part = part if len(sizes) == 1 else part.reshape(*sizes, *part.shape[1:])
        return part if order == tuple(sorted(order)) else part.permute(inverse_order(order))
    if tensor.dims[0] != 1:
        raise _refuse("by item", tensor, "the outer ragged dimension before the others")
    rows, _ = tensor.rows.select(np.array([number]))
    inner: RaggedDim | None = None
    for level in rows.levels[1:]:
        inner = RaggedDim.of(level.lengths, inner)
    assert inner is not None
    return NestedTensor(part, inner, tuple(dim - 1 for dim in tensor.dims[1:]))


def _sizes(rows: RaggedDim, number: int) -> list[int] | None:
    """The ragged sizes of an item; None where its rows differ."""
    found: list[int] = []
    first, last = number, number + 1
    for level in rows.levels:
        lengths = level.lengths[first:last]
        if len(lengths) and (lengths != lengths[0]).any():
            return None
        found.append(int(lengths[0]) if len(lengths) else 0)
        first, last = int(level.offsets[first]), int(level.offsets[last])
    return found


# -- writing and masks -----------------------------------------------------------------------------


def put(tensor: NestedTensor, index: object, new: object) -> None:
    """tensor[index] = new: at a mask, at an item, or at places of uniform dimensions of all items."""
    values = tensor.packed
    if isinstance(index, NestedTensor):
        if index.dtype is not weft.bool or not same_structure(tensor, index):
            raise _refuse("with this tensor", tensor, "a bool mask of the same structure")
        values[index.packed] = new.packed if isinstance(new, NestedTensor) else new
        return
    given = _normal(tensor, index)
    if _is_integer(given[0]):
        number = _checked(given[0], len(tensor))
        start, end = tensor.rows.starts()[number : number + 2].tolist()
        item = _item(tensor, number, values[start:end])
        item[tuple(given[1:]) or ...] = new
        return
    if any(
        not (isinstance(given[dim], slice) and given[dim] == slice(None))
        for dim in (0, *tensor.dims)
    ):
        raise _refuse(
            "so to be written to", tensor, "an item, a mask, or places of uniform dimensions"
        )
    places = (slice(None), *(given[dim] for dim in tensor.uniform))
    if isinstance(new, NestedTensor):
        if not same_structure(new, get(tensor, index)):
            raise ShapeError(
                "the value has another structure",
                expected=shape_text(get(tensor, index)),
                got=shape_text(new),
                fix="check the lengths",
            )
        new = new.packed
    values[places] = new


def masked_select(function: Callable[..., object], input: Tensor, mask: Any) -> Any:
    """The elements where a mask holds, as a dense vector."""
    if isinstance(input, NestedTensor):
        chosen = (
            fit("masked_select", mask, input) if not isinstance(mask, NestedTensor) else mask.packed
        )
        return function(input.packed, chosen)
    return function(fit("masked_select", input, mask), mask.packed)


RULES = {"masked_select": masked_select}
