"""Gradients of convolutions as functions: `conv2d_input`, `conv2d_weight` and their like.

They take the shapes and tensors of a convolution and the cotangent of its result, and return the cotangent of its
input or weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft.autograd import grad
from weft.engine.frontend.tensor import Tensor
from weft.nn import functional as F


def _pulled_back(convolve: Callable[..., object], at: Any, cotangent: object) -> Any:
    """The cotangent of what a convolution, which is linear in it, is called with."""
    at = at.detach().requires_grad_()
    with weft.enable_grad():
        result = convolve(at)
    return grad(result, at, cotangent, create_graph=weft.is_grad_enabled())[0]


def _of_input(convolve: Callable[..., object], name: str) -> Callable[..., Any]:
    def conv_input(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
    ) -> Any:
        """The gradient of a convolution for its input of `input_size`."""
        x = grad_output.new_zeros(input_size)
        return _pulled_back(
            lambda x: convolve(x, weight, None, stride, padding, dilation, groups), x, grad_output
        )

    conv_input.__name__ = conv_input.__qualname__ = name
    return conv_input


def _of_weight(convolve: Callable[..., object], name: str) -> Callable[..., Any]:
    def conv_weight(
        input: Tensor,  # noqa: A002 - PyTorch's name
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
    ) -> Any:
        """The gradient of a convolution for its weight of `weight_size`."""
        w = grad_output.new_zeros(weight_size)
        return _pulled_back(
            lambda w: convolve(input, w, None, stride, padding, dilation, groups), w, grad_output
        )

    conv_weight.__name__ = conv_weight.__qualname__ = name
    return conv_weight


conv1d_input, conv1d_weight = (
    _of_input(F.conv1d, "conv1d_input"),
    _of_weight(F.conv1d, "conv1d_weight"),
)
conv2d_input, conv2d_weight = (
    _of_input(F.conv2d, "conv2d_input"),
    _of_weight(F.conv2d, "conv2d_weight"),
)
conv3d_input, conv3d_weight = (
    _of_input(F.conv3d, "conv3d_input"),
    _of_weight(F.conv3d, "conv3d_weight"),
)
