"""Assertions under the names of PyTorch that programs call: `_assert`, `_check` and its kin.

They take a condition and a message: `_assert` a value that is true or false (a tensor is read) and the message itself,
the others a bool and a function that makes the message. They return nothing, or raise the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.engine.dispatch.torch_function import answering_of, ask, is_muted
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentTypeError, ShapeError
from weft.tensor.arguments import describe, need_tensor

if TYPE_CHECKING:
    from weft.compat.torch.fx.proxy import Proxy


Message = Callable[[], Any] | None


def _assert(condition: Tensor | bool | Proxy, message: str = "") -> None:
    """Errors: AssertionError with the message where the condition is false. Types with `__torch_function__` answer."""
    if type(condition) is not Tensor and not is_muted() and answering_of((condition,)):
        ask(_assert, (condition,), (condition, message), {})
        return
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
    check.__doc__ = f"Check it. Errors: {kind.__name__} with the message where it is false, TypeError on no bool."
    return check


def _wrong(text: str, given: Tensor | int | str | None, fix: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{text}, but got {type(given)}",
        expected=text.rpartition(" ")[2],
        got=f"{given!r:.60}",
        fix=fix,
    )


def _check_with(error_type: type[Exception], cond: bool, message: Message) -> None:
    """Errors: of the type named, with the message, where the condition is false."""
    _checker(error_type, "_check_with")(cond, message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Tensor | bool, message: Message = None
) -> None:
    """Errors: of the type named where an element of a tensor of bool is false, TypeError on another type. Reads the
    values."""
    if not isinstance(cond, Tensor):
        raise _wrong("cond must be a tensor", cond, "use weft._check for one bool")
    if cond._dtype.category:
        raise ArgumentTypeError(
            f"cond tensor must have dtype torch.bool, but got {cond._dtype!r}",
            expected="a tensor of bool",
            got=cond._dtype.name,
            fix="compare first, as in x > 0",
        )
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond: Tensor | bool, message: Message = None) -> None:
    """Errors: RuntimeError where an element of a tensor of bool is false. Reads the values."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert_async(input: Tensor, assert_msg: str = "") -> None:  # noqa: A002
    """Errors: RuntimeError where the one element of a tensor is zero. Reads it: there is no device to wait for."""
    if need_tensor("_assert_async", input).numel() != 1:
        raise ShapeError(
            f"Boolean value of Tensor with {'no' if not input.numel() else 'more than one'} "
            f"value{'s' * (not input.numel())} is ambiguous",
            expected="a tensor of one element",
            got=describe("input", input),
            fix="use input.all()",
        )
    if not input.item():
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


_check = _checker(RuntimeError, "_check")
_check_index = _checker(IndexError, "_check_index")
_check_value = _checker(ValueError, "_check_value")
_check_type = _checker(TypeError, "_check_type")
_check_not_implemented = _checker(NotImplementedError, "_check_not_implemented")
