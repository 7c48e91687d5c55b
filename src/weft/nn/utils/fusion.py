"""Fusion of a layer with the batch normalisation after it into one layer, for evaluation.

It takes a convolution or linear layer and a BatchNorm, both in evaluation mode, and returns a layer of the first one's
class whose weight and bias include the running statistics: gamma (W x + b - mean) / sqrt(var + eps) + beta is linear
in x.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import weft
from weft import Tensor
from weft.engine.api.api_function import publish
from weft.errors import ArgumentError, ShapeError
from weft.nn.parameter import Parameter

if TYPE_CHECKING:
    from weft.nn.module.module import Module


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """(weight, bias) of the convolution that does both; `transpose` for those whose channels are dimension 1 of the
    weight. Shapes: (O, I, *), (O) four times -> (O, I, *), (O)."""
    scale = (bn_rv + bn_eps).rsqrt()
    scale = scale if bn_w is None else bn_w * scale
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    bias = (-bn_rm if conv_b is None else conv_b - bn_rm) * scale
    bias = (bias if bn_b is None else bias + bn_b).to(
        conv_w.dtype if conv_b is None else conv_b.dtype
    )
    learnt = conv_b is not None and conv_b.requires_grad
    return Parameter(weight.detach(), conv_w.requires_grad), Parameter(bias.detach(), learnt)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """`fuse_conv_bn_weights` of a linear layer. Shapes: (O, I), (O) four times -> (O, I), (O)."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Any:
    """A convolution that gives what `bn(conv(x))` gives. Errors: ArgumentError in training mode."""
    return _fused("fuse_conv_bn_eval", conv, bn, transpose)


def fuse_linear_bn_eval(linear: Module, bn: Module) -> Any:
    """A linear layer that gives what `bn(linear(x))` gives. Errors: ArgumentError in training mode; ShapeError where
    the two have other numbers of features."""
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise ShapeError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1",
            expected=f"{linear.out_features} features, or one",
            got=f"{bn.num_features} features",
            fix="pass the normalisation that follows this layer",
        )
    return _fused("fuse_linear_bn_eval", linear, bn, False)


def _fused(function: str, layer: Module, bn: Module, transpose: bool) -> Any:
    """A copy of the layer with the normalisation in its weight and bias."""
    if layer.training or bn.training or bn.running_mean is None or bn.running_var is None:
        raise ArgumentError(
            f"{function}: Fusion only for eval!",
            expected="both layers in evaluation mode, the normalisation with running statistics",
            got="a layer in training mode" if layer.training or bn.training else "no statistics",
            fix="call eval() on both",
        )
    fused = copy.deepcopy(layer)
    statistics = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    with weft.no_grad():
        fused.weight, fused.bias = fuse_conv_bn_weights(
            fused.weight, fused.bias, *statistics, transpose
        )
    return fused


publish(globals())
