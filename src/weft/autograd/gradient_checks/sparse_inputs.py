"""Sparse inputs of gradient checks, as the dense values that they are made of.

It takes a function and its inputs, and gives a function of dense inputs: checks move elements, and compare gradients,
where those are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft._build.lazy import later
from weft.engine.dispatch.core_hooks import sparse_library
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError

library = later("weft")


def is_sparse(item: object) -> bool:
    """True for a tensor that keeps only some of its elements."""
    return isinstance(item, Tensor) and item.layout is not library.strided


def need_dense(output: Tensor) -> None:
    """Errors: ValueError for a sparse output."""
    if is_sparse(output):
        raise ArgumentError(
            "Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the output of "
            "fn for gradcheck.",
            expected="dense outputs",
            got=f"one of layout {output.layout!r}",
            fix="return .to_dense()",
        )


def by_values(
    function: Callable[..., object], inputs: list[Tensor], masked: bool
) -> tuple[Callable[..., Any], list[Tensor]]:
    """A function of dense values, and these values: of the entries that are there if `masked`, else of all elements."""
    makers = {
        place: _maker(item, masked)
        for place, item in enumerate(inputs)
        if is_sparse(item) and item.requires_grad
    }
    if not makers:
        return function, inputs

    def of_values(*items: object) -> Any:
        return function(*(makers[i][0](t) if i in makers else t for i, t in enumerate(items)))

    return of_values, [makers[i][1] if i in makers else item for i, item in enumerate(inputs)]


def _maker(item: Tensor, masked: bool) -> tuple[Callable[[object], Any], Tensor]:
    """The function that makes a tensor like an input of values, and the values."""
    structure: Any = item.detach()
    if item.layout is library.sparse_coo:
        structure = structure.coalesce()
    if not masked:
        structure = _with_all_places(structure)
    sparse = sparse_library()
    entries = sparse.sparse_mask(item.detach().to_dense(), structure).entries

    def made(given: object) -> Any:
        return sparse.like(structure, given)

    return made, entries.clone().requires_grad_()


def _with_all_places(item: Tensor) -> Any:
    """A sparse tensor of this layout with an entry, or a block, at each place."""
    dense = library.ones(tuple(item.shape), dtype=item.dtype)
    if item.layout is library.sparse_coo:
        return dense.to_sparse(item.sparse_dim())
    batches = item.dim() - item.sparse_dim() - item.dense_dim()
    is_blocked = item.layout in (library.sparse_bsr, library.sparse_bsc)
    size = tuple(item.values().shape[batches + 1 : batches + 3]) if is_blocked else None
    return dense.to_sparse(layout=item.layout, blocksize=size, dense_dim=item.dense_dim())


def with_dense_outputs(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose sparse results are dense ones."""

    def dense(output: Tensor) -> Tensor:
        return output.to_dense() if is_sparse(output) else output

    def called(*items: object) -> Any:
        found = function(*items)
        return type(found)(map(dense, found)) if isinstance(found, (tuple, list)) else dense(found)

    return called
