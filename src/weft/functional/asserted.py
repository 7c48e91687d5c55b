"""What programs check themselves with, under the names of PyTorch that they call: `_assert`, `_check` and its kin.

In: a condition (a tensor is read) and a message, or a function that makes it. Out: nothing, or the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Message = Callable[[], Any] | str | None


def _assert(condition: Any, message: Any = "") -> None:
    """Errors: AssertionError with the message where the condition is false."""
    assert condition, message  # noqa: S101 - what the name says


def _checker(kind: type[Exception], name: str) -> Callable[..., None]:
    def check(cond: Any, message: Message = None) -> None:
        if not cond:
            text = message() if callable(message) else message
            raise kind("Expected cond to be True" if text is None else str(text))

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"Errors: {kind.__name__} with the message where the condition is false."
    return check


_check = _checker(RuntimeError, "_check")
_check_index = _checker(IndexError, "_check_index")
_check_value = _checker(ValueError, "_check_value")
_check_type = _checker(TypeError, "_check_type")
_check_not_implemented = _checker(NotImplementedError, "_check_not_implemented")
