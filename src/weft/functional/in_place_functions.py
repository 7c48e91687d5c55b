"""Functions that write to their first argument, as `weft.relu_(x)`: each is Tensor's method of its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.engine.frontend.tensor import Tensor
from weft.functional.imported_on_call import IN_PLACE


def _function(name: str) -> Callable[..., Any]:
    """The method `name` of Tensor as a function of `weft`."""
    method = getattr(Tensor, name)

    def in_place(
        input: Tensor | float,
        *arguments: Tensor | float | tuple[Tensor | int, ...],
        **keywords: object,
    ) -> Any:  # noqa: A002 - PyTorch's name
        if not isinstance(input, Tensor):
            from weft.tensor.arguments import need_tensor

            need_tensor(name, input)
        return method(input, *arguments, **keywords)

    in_place.__name__ = in_place.__qualname__ = name
    in_place.__doc__ = f"`input.{name}(...)`: writes to `input` and returns it."
    in_place.method = method  # type: ignore[attr-defined]  # whose parameters these are
    return in_place


globals().update({name: _function(name) for name in IN_PLACE})
