"""The modes of recording, under the names that `torch.autograd` has for them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.autograd.multithreading import set_multithreading_enabled
from weft.tensor.modes import enable_grad, inference_mode, no_grad, set_grad_enabled


class enforce_grad_layout_policy:  # noqa: N801 - PyTorch's name
    """Nothing to relax: a gradient's layout is chosen where it is first written, and taking another would spare no
    copy. Kept for programs that use it, as a context, a decorator or a call.

    Args:
        enable: True or False; without effect.
    """

    def __init__(self, enable: bool = True) -> None:
        self.enable = bool(enable)

    def __enter__(self) -> None:
        """Nothing to change."""

    def __exit__(self, *exc: object) -> None:
        """Nothing to end."""

    def __call__(self, function: Callable[..., object]) -> Callable[..., Any]:
        """The function as it is."""

        @functools.wraps(function)
        def same(*arguments: object, **keywords: object) -> Any:
            return function(*arguments, **keywords)

        return same


__all__ = [
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]
