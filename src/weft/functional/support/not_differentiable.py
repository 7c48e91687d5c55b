"""Functions that are not differentiable by an argument, though its type is: PyTorch's results require grad there too,
and raise when a gradient or a tangent is wanted.

It takes a value that was computed without its inputs, and these, and returns the value with a record that leads to
them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from weft.autograd.function import Function
from weft.engine.frontend.tensor import Tensor
from weft.errors import NotDefinedError
from weft.ops.primitives import full

if TYPE_CHECKING:
    from weft.autograd.custom.context import FunctionCtx


def no_derivative(name: str) -> NotDefinedError:
    """The error where a derivative of `name` is wanted; PyTorch has other words for what it calls `aten::...`."""
    general = name.startswith("aten::")
    return NotDefinedError(
        f"derivative for {name} is not implemented"
        if general
        else f"the derivative for '{name}' is not implemented.",
        expected="an argument by which there is a derivative",
        got=name,
        fix="pass input.detach() to go on without this gradient",
    )


@cache
def _record(name: str, called: str) -> type[Function]:
    class Underived(Function):
        """A value as it is."""

        _ending = "Backward0"

        @staticmethod
        def forward(ctx: FunctionCtx, value: Tensor, *inputs: Tensor) -> Any:
            return value.view_as(value)

        @staticmethod
        def backward(ctx: FunctionCtx, g: Tensor) -> Any:
            raise no_derivative(name)

        @staticmethod
        def jvp(ctx: FunctionCtx, *moved: Tensor | None) -> Any:
            raise no_derivative(name)

    Underived.__name__ = Underived.__qualname__ = called
    return Underived


class Flat(Function):
    """A value whose derivatives are zeros: of a draw by what it is drawn with."""

    _ending = "Backward0"

    @staticmethod
    def forward(ctx: Any, value: Tensor, *inputs: Tensor) -> Any:
        ctx.inputs = [(part._shape, part._dtype) for part in inputs]
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return (None, *(full(shape, 0, dtype) for shape, dtype in ctx.inputs))

    @staticmethod
    def jvp(ctx: FunctionCtx, *moved: Tensor | None) -> Any:
        return moved[0]


def flat(value: Tensor, *inputs: Tensor) -> Tensor:
    """A value whose derivatives by some inputs are zeros."""
    if not any(part.requires_grad for part in inputs):
        return value
    return Flat.apply(value, *inputs)  # type: ignore[no-any-return]


def underived(name: str, value: Tensor, *inputs: Tensor) -> Tensor:
    """A value whose derivatives by some inputs are wanted by nobody, or raise: `name` is PyTorch's for the function."""
    if not any(part.requires_grad for part in inputs):
        return value
    called = "".join(word.capitalize() for word in name.removeprefix("aten::").split("_"))
    return _record(name, called).apply(value, *inputs)  # type: ignore[no-any-return]
