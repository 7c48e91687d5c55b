"""What programs check themselves with, under the names of PyTorch that they call: `_assert`, `_check` and its kin.

In: a condition and a message. `_assert` takes what is true or false (a tensor is read) and the message itself, the
others a bool and a function that makes the message. Out: nothing, or the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.errors import ArgumentTypeError

Message = Callable[[], Any] | None


def _assert(condition: Any, message: Any = "") -> None:
    """Errors: AssertionError with the message where the condition is false."""
    assert condition, message  # noqa: S101 - what the name says


def _checker(kind: type[Exception], name: str) -> Callable[..., None]:
    def check(cond: bool, message: Message = None) -> None:
        if not isinstance(cond, bool):
            raise _wrong("cond must be a bool", cond, "read a tensor with .item() first")
        if cond:
            return
        if message is not None and not callable(message):
            raise _wrong("message must be a callable", message, "pass lambda: message")
        raise kind("Expected cond to be True" if message is None else str(message()))

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"Errors: {kind.__name__} with the message where the condition is false, TypeError on no bool."
    return check


def _wrong(text: str, given: Any, fix: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{text}, but got {type(given)}",
        expected=text.rpartition(" ")[2],
        got=f"{given!r:.60}",
        fix=fix,
    )


_check = _checker(RuntimeError, "_check")
_check_index = _checker(IndexError, "_check_index")
_check_value = _checker(ValueError, "_check_value")
_check_type = _checker(TypeError, "_check_type")
_check_not_implemented = _checker(NotImplementedError, "_check_not_implemented")
