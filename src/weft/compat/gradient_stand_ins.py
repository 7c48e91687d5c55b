"""Records that stand for a gradient: none at all (`UndefinedGrad`), or an error (`DelayedError`)."""

from __future__ import annotations

from typing import Any

from weft.autograd.function import Function
from weft.autograd.graph import Node
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentTypeError, GradientError


class _Undefined(Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> Any:
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return (None,) * len(grads)


class _Raising(Function):
    @staticmethod
    def forward(ctx: Any, message: str, *tensors: Tensor) -> Any:
        ctx.message = message
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise GradientError(
            ctx.message,
            expected="no gradient here",
            got="a backward",
            fix="detach the result of DelayedError",
        )


def _alone(results: tuple[Tensor, ...]) -> Any:
    return results[0] if len(results) == 1 else results


class UndefinedGrad:
    """A function of tensors that gives them on; their gradients end there."""

    def __call__(self, *tensors: Tensor) -> Any:
        return _alone(_Undefined.apply(*tensors))


class DelayedError:
    """A function of tensors that gives them on, and raises where a gradient comes.

    Args:
        msg: the message of the error.
        num_inputs: how many tensors it is called with.
    """

    def __init__(self, msg: str, num_inputs: int) -> None:
        self.msg, self.num_inputs = msg, num_inputs

    def __call__(self, *tensors: Tensor) -> Any:
        if len(tensors) != self.num_inputs:
            raise ArgumentTypeError(
                f"expected {self.num_inputs} arguments, got {len(tensors)} instead",
                expected=f"{self.num_inputs} tensors",
                got=str(len(tensors)),
                fix="pass the number that DelayedError was made with",
            )
        return _alone(_Raising.apply(self.msg, *tensors))


for _kind in (UndefinedGrad, DelayedError):
    Node.register(_kind)
