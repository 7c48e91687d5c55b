"""Deprecated names: a call of one warns, with PyTorch's words, and does what today's name does.

A warning is attributed to the user's line, past all frames of this library. The names that warn are those of which
PyTorch's users are told; what it says as a `DeprecationWarning` of its own lines (`torch.jit`), which Python hides, and
of its own limits (slow, in beta, without CUDA) is not said here.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from weft.errors import is_internal

_Function = TypeVar("_Function", bound=Callable[..., Any])


def user_level() -> int:
    """The `stacklevel` with which the function that calls this one warns at the user's line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and is_internal(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    return level


def warn_deprecated(message: str, category: type[Warning] = FutureWarning) -> None:
    """Warn that a call is deprecated."""
    warnings.warn(message, category, stacklevel=user_level())


def deprecated(
    message: str, category: type[Warning] = FutureWarning
) -> Callable[[_Function], _Function]:
    """A decorator: each call of the function warns first."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def warned(*args: object, **kwargs: object) -> Any:
            warn_deprecated(message, category)
            return function(*args, **kwargs)

        warned.__deprecated__ = message  # type: ignore[attr-defined]
        return warned  # type: ignore[return-value]

    return decorate
