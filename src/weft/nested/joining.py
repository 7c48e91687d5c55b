"""cat and stack of ragged tensors: along the batch, a ragged dimension, or a uniform one.

Dense tensors among the parts count as items of one length. Along a ragged dimension the values are joined and then
gathered once, so that the rows of each item follow one another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft
from weft import Tensor
from weft.errors import ShapeError
from weft.nested.rows import RaggedDim, indices
from weft.nested.tensor import NestedTensor, shape_text
from weft.ops.primitives import take


def _refuse(parts: Sequence[NestedTensor], dim: int, expected: str) -> ShapeError:
    return ShapeError(
        f"cat: ragged tensors do not fit along dimension {dim}",
        expected=expected,
        got=", ".join(shape_text(part) for part in parts),
        fix="check the lengths, or unbind() and join item by item",
    )


def of_dense(tensor: Tensor, like: NestedTensor) -> NestedTensor:
    """A dense tensor as a ragged one whose ragged dimensions are those of `like`, all of equal length."""
    dims = like.dims
    if tensor.ndim != like.ndim:
        raise ShapeError(
            "a dense tensor of another rank beside ragged ones",
            expected=f"rank {like.ndim}",
            got=f"shape {list(tensor.shape)}",
            fix="unsqueeze or expand it",
        )
    inner = [dim for dim in range(1, tensor.ndim) if dim not in dims]
    values = tensor.permute(0, *dims, *inner).flatten(0, len(dims))
    rows = RaggedDim.of(np.full(tensor.shape[0], tensor.shape[dims[0]]))
    for dim in dims[1:]:
        rows = rows.below(np.full(tensor.shape[0], tensor.shape[dim]))
    return NestedTensor(values, rows, dims)


def cat(function: Callable[..., Tensor], tensors: list[NestedTensor], dim: int = 0) -> Any:
    """Tensors one after the other along a dimension."""
    first = next(part for part in tensors if isinstance(part, NestedTensor))
    parts = [of_dense(part, first) if isinstance(part, Tensor) else part for part in tensors]
    place = first.dimension(dim)
    for part in parts:
        if part.dims != first.dims or part.ndim != first.ndim:
            raise _refuse(parts, place, "the same ragged dimensions")
    if place in first.uniform:
        if any(part.rows is not first.rows for part in parts):
            raise _refuse(parts, place, "equal lengths")
        return first.like(weft.cat([part.packed for part in parts], first.axis(place)))
    values = weft.cat([part.packed for part in parts])
    if place == 0:
        return NestedTensor(values, _stacked([part.rows for part in parts]), first.dims)
    level = first.dims.index(place)
    if any(
        part.rows.levels[:level] != first.rows.levels[:level] or len(part) != len(first)
        for part in parts
    ):
        raise _refuse(parts, place, "equal lengths in the other dimensions")
    rows, order = _woven([part.rows for part in parts], level)
    return NestedTensor(take(values, 0, indices(order)), rows, first.dims)


def _stacked(rows: Sequence[RaggedDim]) -> RaggedDim:
    """The structure of all items, one batch after the other."""
    found: RaggedDim | None = None
    for levels in zip(*(one.levels for one in rows), strict=True):
        found = RaggedDim.of(np.concatenate([level.lengths for level in levels]), found)
    assert found is not None
    return found


def _woven(rows: Sequence[RaggedDim], level: int) -> tuple[RaggedDim, np.ndarray]:
    """The structure with longer rows at a level, and the order of the joined entries."""
    lengths = np.sum([one.levels[level].lengths for one in rows], axis=0)
    found = RaggedDim.of(lengths, rows[0].levels[level].parent)
    for deeper in range(level + 1, rows[0].depth):
        under = np.concatenate([one.levels[deeper - 1].ancestors(level) for one in rows])
        joined = np.concatenate([one.levels[deeper].lengths for one in rows])
        found = RaggedDim.of(joined[np.argsort(under, kind="stable")], found)
    ids = np.concatenate([one.ancestors(level) for one in rows])
    return found, np.argsort(ids, kind="stable")


def stack(function: Callable[..., object], tensors: list[NestedTensor], dim: int = 0) -> Any:
    """Tensors of one structure side by side in a new dimension behind the batch."""
    first = next(part for part in tensors if isinstance(part, NestedTensor))
    place = first.dimension(dim, 1)
    if place == 0:
        raise _refuse([first], 0, "a new dimension behind the batch")
    return cat(weft.cat, [part.unsqueeze(place) for part in tensors], place)


RULES = {"cat": cat, "stack": stack}
