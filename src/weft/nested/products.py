"""Matrix products of ragged tensors: linear, and matmul with dense matrices and item by item.

A product that contracts a uniform dimension with one dense matrix is one product of all entries. A product item by item
runs in a few buckets of items of like size, padded with zeros, whatever the number of items.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from weft import Tensor
from weft.errors import NotDefinedError, ShapeError
from weft.nested.joining import of_dense
from weft.nested.padding import Buckets, anchored, pad, with_edge
from weft.nested.rows import RaggedDim
from weft.nested.tensor import NestedTensor, shape_text
from weft.ops.primitives import take

if TYPE_CHECKING:
    from weft.sparse.tensor import SparseTensor


def _shape(tensor: NestedTensor) -> str:
    return shape_text(tensor) if isinstance(tensor, NestedTensor) else str(list(tensor.shape))


def _misfit(a: NestedTensor, b: Any, expected: str) -> ShapeError:
    return ShapeError(
        f"matmul: shapes cannot be multiplied ({_shape(a)} and {_shape(b)})",
        expected=expected,
        got=f"{_shape(a)}, {_shape(b)}",
        fix="transpose one of them",
    )


def linear(
    function: Callable[..., object], input: NestedTensor, weight: Tensor, bias: Tensor | None = None
) -> Any:
    """input @ weight.T + bias. Shapes: (B, j, in), (out, in) -> (B, j, out)."""
    if isinstance(weight, NestedTensor) or isinstance(bias, NestedTensor):
        raise NotDefinedError(
            "linear with a ragged weight",
            expected="a dense weight and bias",
            got=_shape(weight),
            fix="use matmul(input, weight.transpose(1, 2)) for products item by item",
        )
    last = input.ndim - 1
    if last in input.dims:
        raise ShapeError(
            "linear: the last dimension is ragged",
            expected=f"a last dimension of {weight.shape[-1]}",
            got=_shape(input),
            fix="transpose it behind",
        )
    found = function(input.packed, weight, bias)
    return input.like(found)


def matmul(function: object, input: Any, other: Tensor | NestedTensor) -> Any:
    """Products of the last two dimensions: with a dense vector or matrix for all items, or item by item."""
    if isinstance(other, Tensor) and other.ndim <= 2:
        if input.ndim - 1 in input.uniform:
            return _by_matrix(input, other)
        if other.ndim == 1:
            raise _misfit(input, other, "a uniform last dimension")
    if isinstance(input, Tensor) and input.ndim <= 2:
        if input.ndim == 1:
            return matmul(function, input.unsqueeze(0), other).squeeze(-2)
        return matmul(function, other.transpose(-1, -2), input.mT).transpose(-1, -2)
    return per_item(input, other)


def _by_matrix(input: NestedTensor, matrix: Tensor) -> Any:
    inner = input.packed.shape[-1]
    if matrix.shape[0] != inner:
        raise _misfit(input, matrix, f"{inner} rows")
    values = weft.matmul(input.packed, matrix)
    return input.like(values)


def per_item(a: NestedTensor | Tensor, b: Any) -> Any:
    """The products of the items. Shapes: (B, *, m, k), (B, *, k, n), of which each may be ragged."""
    if isinstance(a, Tensor):
        a = _as_items(a, b)
    if isinstance(b, Tensor):
        b = _as_items(b, a)
    rank = a.ndim
    if rank < 3 or b.ndim != rank or len(a) != len(b):
        raise _misfit(a, b, "as many items, of one rank of at least 2")
    if a.size(rank - 1) != b.size(rank - 2) and not _same_lengths(a, b, rank):
        raise _misfit(a, b, "equal sizes of the contracted dimension in each item")
    buckets = _buckets(a.rows, b.rows)
    edges = with_edge(a, 0), with_edge(b, 0)
    parts = [
        weft.matmul(pad(a, edges[0], left), pad(b, edges[1], right))
        for left, right in buckets.parts
    ]
    ragged = [
        (place, tensor.rows.levels[tensor.dims.index(place)].lengths_per_item())
        for tensor, place in ((a, rank - 2), (b, rank - 1))
        if place in tensor.dims
    ]
    outer = [dim for dim in a.dims if dim < rank - 2]
    if outer or any(dim < rank - 2 for dim in b.dims) or any(count is None for _, count in ragged):
        raise _misfit(
            a, b, "ragged rows and columns only, with lengths that depend on the item alone"
        )
    uniform = _result_sizes(a, b, [place for place, _ in ragged])
    nothing = weft.zeros((1, *uniform), dtype=a.dtype)
    if not parts:
        nothing = anchored(nothing, a, b)
    return _joined(parts, nothing, buckets, ragged, a)


def _as_items(dense: Any, like: NestedTensor) -> NestedTensor:
    """A dense batch of matrices as a ragged tensor, whose rows all have one length."""
    if dense.ndim != like.ndim:
        raise _misfit(dense, like, "operands of one rank")
    place = dense.ndim - 2
    rows = RaggedDim.of(np.full(dense.shape[0], dense.shape[place]))
    template = NestedTensor(weft.zeros((rows.total, *(1,) * (dense.ndim - 2))), rows, (place,))
    return of_dense(dense, template)


def _same_lengths(a: NestedTensor, b: NestedTensor, rank: int) -> bool:
    """True if the contracted dimensions agree in every item, ragged or not."""
    first, second = _contracted(a, rank - 1), _contracted(b, rank - 2)
    return first is not None and second is not None and bool((first == second).all())


def _contracted(tensor: NestedTensor, dim: int) -> Any:
    """The size of a dimension in each item; None where one item has several."""
    if dim in tensor.dims:
        return tensor.rows.levels[tensor.dims.index(dim)].lengths_per_item()
    return np.full(len(tensor), tensor.size(dim))


def _buckets(a: RaggedDim, b: RaggedDim) -> Buckets:
    return a.kept(("buckets", None if a is b else b), lambda: Buckets(a, b))


def _result_sizes(a: NestedTensor, b: NestedTensor, ragged: list[int]) -> list[int]:
    """The uniform sizes of a product, behind the batch."""
    rank = a.ndim
    sizes = [max(a.size(dim), b.size(dim)) for dim in range(1, rank - 2)]
    sizes += [
        tensor.size(place)
        for tensor, place in ((a, rank - 2), (b, rank - 1))
        if place not in ragged
    ]
    return sizes


def _joined(
    parts: list[Tensor],
    nothing: Tensor,
    buckets: Buckets,
    ragged: list[tuple[int, Any]],
    a: NestedTensor,
) -> Any:
    """Padded results of buckets as one result: dense where no dimension is ragged."""
    dims = [place for place, _ in ragged]
    inner = [dim for dim in range(1, a.ndim) if dim not in dims]
    sizes = [[part.shape[place] for place in dims] for part in parts]
    flat = [part.permute(0, *dims, *inner).flatten(0, len(dims)) for part in parts]
    flat.append(nothing)
    rows = RaggedDim.of(ragged[0][1]) if ragged else RaggedDim.of(np.ones(len(a)))
    for _, lengths in ragged[1:]:
        rows = rows.below(lengths)
    index, _ = buckets.back(rows, sizes if ragged else [[1]] * len(parts))
    values = take(weft.cat(flat), 0, index)
    return NestedTensor(values, rows, tuple(dims)) if ragged else values


def bmm(function: Callable[..., object], input: SparseTensor, mat2: Tensor) -> Any:
    """Products item by item."""
    return per_item(input, mat2)


RULES = {"linear": linear, "matmul": matmul, "bmm": bmm}
