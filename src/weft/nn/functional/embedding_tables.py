"""Tables of embeddings at a lookup: shortened rows, gradients weighed by frequency, sparse gradients.

A table and the indices that name its rows become a table to look them up in. `embedding` and bags look up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from weft._build.lazy import later
from weft.autograd import Function
from weft.engine.frontend.tensor import Tensor
from weft.errors import AssertedError, NotDefinedError
from weft.functional.linalg.norms import vector_norm
from weft.functional.support import host
from weft.functional.support.index_bounds import check_index
from weft.ops.primitives import full, reshape, take, take_add, where

if TYPE_CHECKING:
    from weft.autograd.custom.context import FunctionCtx


gradients = later("weft.sparse.gradients")


def prepared(
    input: Tensor,
    weight: Tensor,
    max_norm: float | None,
    norm_type: float,
    scale_grad_by_freq: bool,
) -> Any:
    """The table that an index looks up in: its rows shortened in place, its gradient weighed."""
    if max_norm is not None:
        renormalize_rows(weight, input, max_norm, norm_type)
    return scaled_by_frequency(weight, input) if scale_grad_by_freq else weight


def renormalize_rows(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Shorten, in place and outside the graph, the rows that an index names and that are longer than `max_norm`."""
    check_index("embedding", input, weight._shape[0], 0, False)
    rows = host.from_numpy(np.unique(host.to_numpy(input)).astype(np.int64))
    with weft.no_grad():
        found = take(weight.detach(), 0, rows)
        size = vector_norm(found, norm_type, 1, True)
        weight.index_copy_(
            0, rows, where(size > max_norm, found * (max_norm / (size + 1e-7)), found)
        )


class _Weighed(Function):
    """The table itself; the gradient of each row is divided by how often an index names it."""

    @staticmethod
    def forward(ctx: FunctionCtx, weight: Tensor, counts: object) -> Any:
        """(n, d), (n, 1) -> (n, d)."""
        ctx.save_for_backward(counts)
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: FunctionCtx, *cotangents: Tensor) -> Any:
        """Divided."""
        return cotangents[0] / ctx.saved_tensors[0], None


def scaled_by_frequency(weight: Tensor, index: Any) -> Any:
    """A table whose rows' gradients are means over their uses instead of sums. Shapes: (n, d), (*) -> (n, d)."""
    flat = reshape(index, (index.numel(),))
    zeros, ones = full((weight._shape[0],), 0, weight._dtype), full(flat._shape, 1, weight._dtype)
    counts = take_add(zeros, 0, flat, ones)
    return _Weighed.apply(weight, reshape(counts.clamp(min=1), (weight._shape[0], 1)))


def padding_place(padding_idx: int, count: int) -> int:
    """The row that gets no gradient. Errors: RuntimeError for one that the table does not have."""
    if not -count <= padding_idx < count:
        raise AssertedError(
            "Padding_idx must be within num_embeddings",
            expected=f"-{count} <= padding_idx < {count}",
            got=str(padding_idx),
            fix="choose a row of the table",
        )
    return padding_idx % count


def sparse_rows(
    weight: Tensor, index: Tensor, padding_idx: int | None, scale_grad_by_freq: bool
) -> Any:
    """Rows of a table whose gradient is sparse. Shapes: (n, d), (*) -> (*, d). Errors: NotDefinedError."""
    if scale_grad_by_freq and weight.requires_grad and weft.is_grad_enabled():
        raise NotDefinedError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients",
            expected="one of sparse and scale_grad_by_freq",
            got="both",
            fix="leave sparse out",
        )
    place = None if padding_idx is None else padding_place(padding_idx, weight._shape[0])
    return gradients.lookup(weight, index, place)
