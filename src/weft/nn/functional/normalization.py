# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Normalisation: layer, batch, group, instance and root mean square.

All but the last are one composite, `standardize` over some axes, behind reshapes and an affine map; half types
compute in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cython

from weft._build.compiled import require
from weft.engine.api.call_cache import ComposedPart, composed_of_primitives
from weft.engine.frontend.inplace import in_place
from weft.engine.frontend.recorder import cast, record_gradient
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, ShapeError
from weft.functional.reductions.sums_and_extrema import count_of, reduce_over
from weft.functional.support.memory_formats import in_order, like_channels
from weft.ops import OPS
from weft.ops.composite.own_derivatives import inverse_deviation
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import reshape
from weft.tensor.arguments import (
    Shape,
    describe,
    need_floating,
    need_integer,
    need_rank,
    need_tensor,
    per_dimension,
    untracked,
    widen,
)

require(__name__, cython.compiled)

_STANDARDIZE = OPS["standardize"]


def standardize(x: Tensor, axes: Shape, eps: float) -> Any:
    """(x - mean) / sqrt(variance + eps) over axes, with one gradient record."""
    with untracked():
        centred, scale = inverse_deviation(x, axes, eps)
        result = centred * scale
    return record_gradient(_STANDARDIZE, (x,), (axes, eps), result)


def _affine(x: Tensor, weight: object, bias: object, shape: Shape) -> Any:
    if weight is not None:
        x = x * reshape(weight, shape)
    return x if bias is None else x + reshape(bias, shape)


def _check_like(name: str, value: Tensor | None, shape: Shape) -> None:
    """Errors: ShapeError where a weight or bias has not the sizes that are normalised."""
    if value is not None and value._shape != shape:
        raise ShapeError(
            f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(value._shape)} "
            f"and normalized_shape = {list(shape)}",
            expected=f"a {name} {list(shape)}",
            got=describe(name, value),
            fix=f"make the {name} of the sizes that are normalised",
        )


def _last_axes(name: str, input: Tensor, normalized_shape: Sequence[int]) -> tuple[Shape, Shape]:
    need_tensor(name, input)
    shape = per_dimension("normalized_shape", normalized_shape)
    rank = len(input._shape)
    if not shape:
        raise ShapeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []",
            expected="at least one size",
            got="[]",
            fix="pass the last sizes of the input",
        )
    if input._shape[-len(shape) :] != shape:
        wanted = ", ".join(["*", *(str(size) for size in shape)])
        raise ShapeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [{wanted}], but got input "
            f"of size{list(input._shape)}",
            expected=f"last sizes {list(shape)}",
            got=describe("input", input),
            fix="build the layer with the input's last sizes",
        )
    return shape, tuple(range(rank - len(shape), rank))


@composed_of_primitives
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Any:
    """Mean 0 and variance 1 over the last dimensions, then scaled and shifted. Errors: ShapeError."""
    shape, axes = _last_axes("layer_norm", input, normalized_shape)
    need_floating("LayerNormKernelImpl", input)
    _check_like("weight", weight, shape)
    _check_like("bias", bias, shape)
    normal = standardize(widen(input), axes, eps)
    return in_order(cast(_affine(normal, weight, bias, shape), input._dtype))


@composed_of_primitives
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Any:
    """x / sqrt(mean(x^2) + eps) over the last dimensions, then scaled."""
    shape, axes = _last_axes("rms_norm", input, normalized_shape)
    _check_like("weight", weight, shape)
    x = widen(input)
    if eps is None:
        eps = {"float64": 2.220446049250313e-16, "float16": 2.0**-10, "bfloat16": 2.0**-7}.get(
            input._dtype.name, 1.1920928955078125e-07
        )
    square = reduce_over(OPS["sum"], call("square", x), axes, True, x._dtype) / count_of(
        x._shape, axes
    )
    return cast(_affine(x * call("rsqrt", square + eps), weight, None, shape), input._dtype)


def _channel_shape(input: Tensor) -> Shape:
    return (input._shape[1],) + (1,) * (len(input._shape) - 2)


_PARAMETERS = ("running_mean", "running_var", "weight", "bias")


def _check_channels(name: str, input: Tensor, *parameters: Tensor | None) -> None:
    """Errors: ShapeError where one of the parameters, the last ones of `_PARAMETERS`, has not a number per channel."""
    need_tensor(name, input)
    channels = input._shape[1] if len(input._shape) > 1 else 0
    for place, parameter in enumerate(parameters):
        if parameter is not None and parameter._shape != (channels,):
            label = _PARAMETERS[place - len(parameters)]
            count = f"{label} should contain {channels} elements not {math.prod(parameter._shape)}"
            vector = (
                f"Expected {label} to be a vector of size equal to the number of channels in input, but got {label} "
                f"of shape {list(parameter._shape)} and input of shape {list(input._shape)}"
            )
            raise ShapeError(
                vector if name == "group_norm" else count,
                expected=f"{channels} channels",
                got=f"{describe('input', input)}, {describe(label, parameter)}",
                operation=name,
                fix="build the layer with num_features = input.shape[1]",
            )


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: object,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Each channel (dimension 1) normalised: by this batch in training (which moves the running statistics), by the
    running statistics otherwise. Errors: ShapeError, ArgumentError."""
    _check_channels("batch_norm", input, running_mean, running_var, weight, bias)
    if training and eps <= 0:
        raise ArgumentError(
            f"batch_norm eps must be positive during training, but got {eps}",
            expected="eps > 0",
            got=str(eps),
            fix="use the default, 1e-5",
        )
    if input._shape == (0,):  # PyTorch takes it, without channels
        return call("clone", input)
    if not training:
        return _by_statistics(input, running_mean, running_var, weight, bias, eps)
    shape = _channel_shape(input)
    axes = tuple(axis for axis in range(len(input._shape)) if axis != 1)
    x = widen(input)
    count = count_of(x._shape, axes)
    if count == 1:
        raise ArgumentError(
            f"Expected more than 1 value per channel when training, got input size {input.shape}",
            expected="more than one value per channel",
            got=describe("input", input),
            fix="use a larger batch, or call .eval()",
        )
    result = _affine(standardize(x, axes, eps), weight, bias, shape)
    if running_mean is not None and count:
        _move_statistics(x, axes, count, running_mean, running_var, momentum)
    return cast(result, input._dtype)


def _normed_by_statistics(
    input: Tensor, mean: Tensor, variance: Tensor, weight: object, bias: Tensor | None, eps: float
) -> Any:
    """Each channel normalised by a mean and a variance of its own."""
    shape = _channel_shape(input)
    scale = call("rsqrt", variance + eps)
    if weight is not None:
        scale = scale * weight
    shifted = (widen(input) - reshape(mean, shape)) * reshape(scale, shape)
    return cast(_affine(shifted, None, bias, shape), input._dtype)


_by_statistics = ComposedPart(_normed_by_statistics)


def _move_statistics(
    x: Tensor, axes: Shape, count: int, running_mean: Tensor, running_var: Tensor, momentum: float
) -> None:
    with untracked():
        middle = reduce_over(OPS["sum"], x, axes, True, x._dtype) / count
        squares = reduce_over(OPS["sum"], call("square", x - middle), axes, True, x._dtype)
        flat = reshape(middle, (x._shape[1],))
        spread = reshape(squares / (count - 1), flat._shape)  # the sum is that of `standardize`
        in_place(
            running_mean, running_mean * (1 - momentum) + cast(flat, running_mean._dtype) * momentum
        )
        in_place(
            running_var, running_var * (1 - momentum) + cast(spread, running_var._dtype) * momentum
        )


@composed_of_primitives
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Any:
    """Mean 0 and variance 1 within groups of channels. Errors: ShapeError."""
    _check_channels("group_norm", input, weight, bias)
    need_rank("group_norm", input, 2)
    batch, channels = input._shape[:2]
    num_groups = need_integer("group_norm", num_groups, "num_groups", 1)
    if channels % num_groups:
        raise ShapeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input._shape)} and num_groups={num_groups}",
            expected="channels % num_groups == 0",
            got=describe("input", input),
            fix="choose a divisor of the channels",
        )
    each = count_of(input._shape, tuple(range(2, len(input._shape))))
    if batch * (channels // num_groups) * each == 1:
        shown = [batch * channels // num_groups, num_groups, *input._shape[2:]]
        raise ArgumentError(
            f"Expected more than 1 value per channel when training, got input size {shown}",
            expected="more than one value per group",
            got=describe("input", input),
            fix="use fewer groups",
        )
    inner = (num_groups, channels // num_groups)
    grouped = reshape(widen(input), (batch, *inner, each))
    made = _affine(standardize(grouped, (2, 3), eps), weight, bias, (*inner, 1))
    return like_channels(cast(reshape(made, input._shape), input._dtype), input)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Mean 0 and variance 1 within each channel of each example. Errors: ShapeError, ArgumentError."""
    if not use_input_stats:
        return in_order(
            batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
        )
    _check_channels("instance_norm", input, running_mean, running_var, weight, bias)
    axes = tuple(range(2, len(input._shape)))
    if not axes:
        raise ShapeError(
            f"Expected more than 1 spatial element when training, got input size {input.shape}",
            expected="dimensions behind the channels: (N, C, L), (N, C, H, W) or (N, C, D, H, W)",
            got=describe("input", input),
            fix="unsqueeze(0) a single example, or use layer_norm",
        )
    if count_of(input._shape, axes) == 1:
        raise ArgumentError(
            f"Expected more than 1 spatial element when training, got input size {input.shape}",
            expected="more than one element behind the channels, to have a variance",
            got=describe("input", input),
            fix="normalise before the last pooling, or use batch_norm",
        )
    result = _affine(standardize(widen(input), axes, eps), weight, bias, _channel_shape(input))
    if running_mean is not None and running_var is not None and input._shape[0]:
        with untracked():
            count = count_of(input._shape, axes)
            middle = reduce_over(OPS["sum"], input, axes, True, input._dtype) / count
            spread = reduce_over(
                OPS["sum"], call("square", input - middle), axes, True, input._dtype
            ) / (count - 1)
            for running, value in ((running_mean, middle), (running_var, spread)):
                new = reduce_over(
                    OPS["sum"], reshape(value, input._shape[:2]), (0,), False, value._dtype
                )
                in_place(running, running * (1 - momentum) + new * (momentum / input._shape[0]))
    return in_order(cast(result, input._dtype))


__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]
