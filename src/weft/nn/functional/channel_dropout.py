# ruff: noqa: A001, A002 - PyTorch's names
"""Dropout of whole channels and with kept moments, random slopes, the Gumbel softmax, and activations in place.

Masks and draws come from the framework's generator and are computed again, not saved.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import weft
from weft.engine.api.deprecation import warn_deprecated
from weft.engine.frontend.inplace import in_place
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, ShapeError
from weft.functional.random.generator import keep_mask, unit
from weft.functional.reductions.softmax import softmax
from weft.functional.shape.rearrange import keep_layout
from weft.functional.support.memory_formats import in_order
from weft.nn.functional import activation
from weft.nn.functional.activation import check_probability, masked, need_real_floats
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full, where
from weft.tensor.arguments import describe, need_tensor

Shape = tuple[int, ...]
_SATURATION = -1.7580993408473766  # the limit of selu at minus infinity


def _finished(input: Tensor, result: Tensor, inplace: bool) -> Any:
    result = cast(result, input._dtype)
    return in_place(input, result) if inplace else result


# -- whole channels ------------------------------------------------------------------------------------------------


def _channel_mask(input: Tensor, spatial: int, batched: bool) -> Shape:
    """(N, C, 1, ...), or (C, 1, ...) without a batch."""
    lead = 2 if batched else 1
    return (*input._shape[:lead], *(1,) * (len(input._shape) - lead))


def _drop_channels(
    name: str, input: Tensor, p: float, training: bool, inplace: bool, spatial: int
) -> Any:
    need_tensor(name, input)
    check_probability(p)
    rank = len(input._shape)
    if rank not in (spatial + 1, spatial + 2):
        warnings.warn(
            f"{name}: Received a {rank}-D input to {name}, which is deprecated and will result in an error "
            f"in a future release. To retain the behavior and silence this warning, please use dropout "
            f"instead. Note that {name} exists to provide channel-wise dropout on inputs with {spatial} "
            f"spatial dimensions, a channel dimension, and an optional batch dimension.",
            stacklevel=4,
        )
    if spatial == 2 and rank == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel dim. "
            "This behavior will change in a future release to interpret the input as one without a batch "
            "dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise dropout behavior, please "
            "switch to using dropout1d instead.",
            stacklevel=4,
        )
    if not training or p == 0 or not input.numel():
        return input
    if rank < 2:
        raise ShapeError(
            "Feature dropout requires at least 2 dimensions in the input",
            expected="(N, C, *)",
            got=describe("input", input),
            fix="use dropout",
        )
    need_real_floats(input)
    batched = rank == spatial + 2 or (spatial == 2 and rank > 2)
    return _finished(input, masked(input, _channel_mask(input, spatial, batched), p), inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Whole channels of (N, C, L) or (C, L) set to 0 with probability p."""
    if len(need_tensor("dropout1d", input)._shape) not in (2, 3):
        raise ShapeError(
            f"dropout1d: Expected 2D or 3D input, but received a {len(input._shape)}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, a channel "
            "dimension, and an optional batch dimension (i.e. 2D or 3D inputs).",
            expected="(N, C, L) or (C, L)",
            got=describe("input", input),
            fix="use dropout",
        )
    return _drop_channels("dropout1d", input, p, training, inplace, 1)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Whole channels of (N, C, H, W) set to 0 with probability p; three dimensions are read as (N, C, L)."""
    return _drop_channels("dropout2d", input, p, training, inplace, 2)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) set to 0 with probability p."""
    return _drop_channels("dropout3d", input, p, training, inplace, 3)


# -- kept moments --------------------------------------------------------------------------------------------------


def _alpha_dropped(input: Tensor, shape: Shape, p: float) -> Any:
    """Dropped elements saturate; an affine map restores mean 0 and variance 1 (Klambauer et al., 2017)."""
    if p == 1:
        return input * 0
    scale = 1 / math.sqrt((1 - p) * (1 + p * _SATURATION**2))
    shift = -scale * _SATURATION * p
    saturated = _SATURATION * scale + shift
    return keep_layout(where(keep_mask(shape, p), input * scale + shift, saturated), input)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """Dropout that keeps the mean and the variance of what `selu` gives."""
    need_tensor("alpha_dropout", input)
    check_probability(p)
    if not training or p == 0 or not input.numel():
        return input
    return _finished(input, _alpha_dropped(input, input._shape, p), inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """`alpha_dropout` of whole channels of (N, C, *)."""
    need_tensor("feature_alpha_dropout", input)
    check_probability(p)
    if not training or p == 0 or not input.numel():
        return input
    if len(input._shape) < 2:
        raise ShapeError(
            "Feature dropout requires at least 2 dimensions in the input",
            expected="(N, C, *)",
            got=describe("input", input),
            fix="use alpha_dropout",
        )
    shape = _channel_mask(input, len(input._shape) - 2, True)
    return _finished(input, _alpha_dropped(input, shape, p), inplace)


# -- random activations --------------------------------------------------------------------------------------------


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Any:
    """x above 0; below, x times a slope drawn between the bounds, or their mean where not training."""
    need_tensor("rrelu", input)
    if lower > upper:
        raise ArgumentError(
            "Lower bound should be less than or equal to the upper bound",
            expected="lower <= upper",
            got=f"lower={lower}, upper={upper}",
            fix="exchange them",
        )
    if not training:
        found = activation.leaky_relu(input, (lower + upper) / 2, inplace)
        return found if inplace else in_order(found)
    slopes = unit(input._shape, input._dtype) * (upper - lower) + lower
    return _finished(input, where(input <= 0, input * slopes, input), inplace)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Any:
    """A draw from a relaxed categorical distribution; with `hard`, one-hot forward and relaxed backward (Jang et al.,
    2017; Maddison et al., 2017)."""
    need_tensor("gumbel_softmax", logits)
    if eps != 1e-10:
        warn_deprecated("`eps` parameter is deprecated and has no effect.", UserWarning)
    noise = -call("log", weft.empty_like(logits.detach()).exponential_())
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    place = weft.max(soft.detach(), dim, keepdim=True).indices
    sharp = full(logits._shape, 0, logits._dtype).scatter(dim, place, 1.0)
    return sharp - soft.detach() + soft


# -- in place ------------------------------------------------------------------------------------------------------


def celu_(input: Tensor, alpha: float = 1.0) -> Any:
    """`celu`, in place."""
    return activation.celu(input, alpha, True)


def elu_(input: Tensor, alpha: float = 1.0) -> Any:
    """`elu`, in place."""
    return activation.elu(input, alpha, True)


def selu_(input: Tensor) -> Any:
    """`selu`, in place."""
    return activation.selu(input, True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Any:
    """`leaky_relu`, in place."""
    return activation.leaky_relu(input, negative_slope, True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """`hardtanh`, in place."""
    return activation.hardtanh(input, min_val, max_val, True)


def threshold_(input: Tensor, threshold: float, value: float) -> Any:
    """`threshold`, in place."""
    return activation.threshold(input, threshold, value, True)


def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Any:
    """`rrelu`, in place."""
    return rrelu(input, lower, upper, training, True)


__all__ = [
    "alpha_dropout",
    "celu_",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu_",
    "feature_alpha_dropout",
    "gumbel_softmax",
    "hardtanh_",
    "leaky_relu_",
    "rrelu",
    "rrelu_",
    "selu_",
    "threshold_",
]
