"""`weft._vmap_internals`: the older place of `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import func as _func
from weft.engine.api.deprecation import warn_deprecated


def _vmap(
    func: Callable[..., object],
    in_dims: object = 0,
    out_dims: object = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., Any]:
    """`weft.vmap`, its results None where `func` returns None and that is allowed."""
    if not allow_none_pass_through:
        return _func.vmap(func, in_dims, out_dims)  # type: ignore[no-any-return]

    def mapped(*args: object) -> Any:
        nothing: list[int] = []

        def without(*example: object) -> Any:
            found = func(*example)
            parts = found if isinstance(found, tuple) else (found,)
            nothing[:] = [place for place, part in enumerate(parts) if part is None]
            return tuple(part for part in parts if part is not None)

        rest = list(_func.vmap(without, in_dims, out_dims)(*args))
        for place in nothing:
            rest.insert(place, None)
        return tuple(rest)

    return mapped


def vmap(func: Callable[..., object], in_dims: object = 0, out_dims: object = 0) -> Any:
    """`weft.vmap`, with PyTorch's warning that it has moved."""
    warn_deprecated("Please use `torch.vmap` instead of `torch._vmap_internals.vmap`.")
    return _vmap(func, in_dims, out_dims)
