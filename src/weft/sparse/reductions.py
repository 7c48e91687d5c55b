# ruff: noqa: A001, A002 - PyTorch's names
"""Sums, norms and softmax of sparse tensors, along sparse and dense dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft import Tensor
from weft._typing import Dims
from weft.engine.ir.dtype import DType
from weft.ops.primitives import full, take
from weft.sparse import structure
from weft.sparse.making import added, coalesced
from weft.sparse.tensor import SparseTensor, like, make
from weft.tensor.arguments import wrap_dim, wrap_dims


def total(
    input: SparseTensor,
    dim: Dims = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Any:
    """The sum of all entries, or along dimensions: sparse unless all sparse dimensions are summed over."""
    entries = input.entries if dtype is None else input.entries.to(dtype)
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return entries.sum()
    axes, rank = wrap_dims(dim, len(input.shape)), input.indexed_dim
    inner = [axis - rank + 1 for axis in axes if axis >= rank]
    entries = entries.sum(inner, keepdim=keepdim) if inner else entries
    kept = [axis for axis in range(rank) if axis not in axes]
    if not kept:
        found = entries.sum(0)
        return found.reshape(*(1,) * rank, *found.shape) if keepdim else found
    rows: Any = input.places
    if len(kept) < rank:
        rows = weft.stack(
            [
                rows[axis] if axis in kept else rows[axis] * 0
                for axis in range(rank)
                if keepdim or axis in kept
            ]
        )
    sizes = [
        1 if axis in axes else size
        for axis, size in enumerate(input.shape)
        if keepdim or axis not in axes
    ]
    unchanged = input.coalesced and len(kept) == rank
    return coalesced(make(rows, entries, sizes, unchanged))


def sum_rule(
    function: Callable[..., object],
    input: SparseTensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Any:
    """`sum` of a sparse tensor."""
    return total(input, dim, keepdim, dtype)


def softmax(input: SparseTensor, dim: int, dtype: DType | None, log: bool) -> SparseTensor:
    """(Logarithms of) shares of the entries along a dimension; what is no entry counts as minus infinity."""
    summed = coalesced(input)
    if dtype is not None:
        summed = like(summed, summed.entries.to(dtype))
    axis, rank = wrap_dim(dim, len(input.shape)), summed.indexed_dim
    if axis >= rank:
        function = weft.log_softmax if log else weft.softmax
        return like(summed, function(summed.entries, axis - rank + 1))
    places = structure.places_of(summed.places)
    others = [row for row in range(rank) if row != axis]
    sizes = tuple(summed.shape[row] for row in others)
    unique, groups = np.unique(structure.flat(places[others], sizes), return_inverse=True)
    return like(summed, _shares(summed.entries, groups.reshape(-1), len(unique), log))


def _shares(entries: Tensor, groups: np.ndarray, count: int, log: bool) -> Tensor:
    """Softmax within groups of entries. Shapes: (n, *dense) -> the same."""
    index = structure.as_index(groups, max(count, 1))
    lowest = full((count, *entries.shape[1:]), -float("inf"), entries.dtype)
    most = weft.index_reduce(lowest, 0, index, entries.detach(), "amax")
    shifted = entries - take(most, 0, index)
    powers = shifted.exp()
    sums = take(added(powers, groups, count), 0, index)
    return shifted - sums.log() if log else powers / sums  # type: ignore[no-any-return]


def softmax_rule(
    function: Callable[..., object], input: Any, dim: Any = -1, *args: object, **kwargs: Any
) -> Any:
    """`softmax` and `log_softmax` of a sparse tensor."""
    return softmax(input, dim, kwargs.get("dtype"), function.__name__ == "log_softmax")


def norm(
    function: Callable[..., object], input: SparseTensor, *args: object, **kwargs: object
) -> Any:
    """The norm of all entries; along dimensions, of the dense tensor."""
    along = args[1:2] or [kwargs.get("dim")]
    if along[0] is None:
        return function(coalesced(input).entries.reshape(-1), *args, **kwargs)
    return function(input.to_dense(), *args, **kwargs)


def over_entries(
    function: Callable[..., object], input: SparseTensor, *args: object, **kwargs: object
) -> Any:
    """A function of all entries whose result zeros do not change."""
    return function(coalesced(input).entries, *args, **kwargs)


RULES: dict[str, Any] = {
    "sum": sum_rule, "softmax": softmax_rule, "log_softmax": softmax_rule, "norm": norm,
    "vector_norm": norm, "any": over_entries, "count_nonzero": over_entries,
}  # fmt: skip
