"""Sparse gradients: of tables that are looked up with `sparse=True`, and their accumulation.

It takes a table and an index and returns rows whose gradient reaches the table as a sparse tensor, an entry for each
use. Backward hands such a cotangent to leaves as it is (`accumulate`, `total`); everything else gets it dense.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import Tensor
from weft.autograd import Function
from weft.ops.primitives import reshape, take
from weft.sparse import structure
from weft.sparse.tensor import SparseTensor, make


class Lookup(Function):
    """Rows of a table, whose gradient is sparse."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, padding: int | None) -> Tensor:
        """(n, d), (*) -> (*, d)."""
        ctx.save_for_backward(index)
        ctx.shape, ctx.padding = table.shape, padding
        return take(table, 0, index)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        """(*, d) -> a sparse (n, d); uses of the padding row are left out."""
        index = reshape(ctx.saved_tensors[0], (ctx.saved_tensors[0].numel(),))
        entries = reshape(cotangents[0], (index.numel(), *ctx.shape[1:]))
        if ctx.padding is not None:
            kept = np.flatnonzero(structure.places_of(index) != ctx.padding)
            if len(kept) < index.numel():
                rows = structure.as_index(kept, index.numel())
                index, entries = take(index, 0, rows), take(entries, 0, rows)
        return make(reshape(index, (1, index.numel())), entries, ctx.shape), None, None


def lookup(table: Tensor, index: Tensor, padding: int | None) -> Tensor:
    """Rows of a table by index; the table's gradient is sparse. Shapes: (n, d), (*) -> (*, d)."""
    return Lookup.apply(table, index, padding)  # type: ignore[no-any-return]


def as_dense(cotangent: SparseTensor) -> Any:
    """A cotangent for a derivative rule."""
    return cotangent.to_dense()


def total(parts: list[Tensor]) -> Any:
    """The sum of cotangents of which some are sparse: sparse where all are."""
    found: Any = None
    for part in sorted(parts, key=lambda part: isinstance(part, SparseTensor)):  # dense ones first
        found = part if found is None else found + part
    return found


def accumulate(leaf: Tensor, gradient: Tensor, create: bool) -> None:
    """`leaf.grad += gradient`, where one of them is sparse: in place on the same object, out of place under
    create_graph; a dense gradient added to a sparse one gives a dense one."""
    before = leaf._grad
    if before is None:
        leaf._grad = gradient if create else gradient.detach()
    elif create:
        leaf._grad = total([before, gradient])
    elif not isinstance(before, SparseTensor):
        before.add_(gradient)
    elif isinstance(gradient, SparseTensor):
        before.adopt(before + gradient)
    else:
        leaf._grad = gradient.detach() + before
