"""Sparse inputs of gradient checks, as the dense values that they are made of.

It takes a function and its inputs, and gives a function of dense inputs: checks move elements, and compare gradients,
where those are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft._build.lazy import later
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
    entries: Any = item.detach()
    if entries.layout is not library.sparse_coo:
        entries = entries.to_sparse()
    entries, shape = entries.coalesce(), item.shape
    places, values = entries.indices(), entries.values()
    if not masked:
        few = entries.sparse_dim()
        places = library.cartesian_prod(*(library.arange(n) for n in shape[:few]))
        places = places.reshape(-1, few).T
        values = entries.to_dense().reshape(-1, *shape[few:])

    def made(given: object) -> Any:
        found = library.sparse_coo_tensor(places, given, shape)
        return found if item.layout is library.sparse_coo else found.to_sparse(layout=item.layout)

    return made, values.detach().clone().requires_grad_()
