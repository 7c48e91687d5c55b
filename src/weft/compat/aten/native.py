# ruff: noqa: A001, A002 - PyTorch's names
"""PyTorch's kernels under their own names: normalisation that also returns the statistics, padding, sampling with
modes by number, steps of recurrent cells. Few programs name them; they are composed of the public functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft._typing import Scalar
from weft.engine.api.api_function import publish
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentTypeError, ShapeError, class_name
from weft.functional.linalg.products import linear
from weft.functional.reductions.variance import var_mean
from weft.functional.support.variants import given
from weft.nn.functional.grid_sampling import grid_sample
from weft.nn.functional.normalization import batch_norm, group_norm, layer_norm
from weft.nn.functional.resampling import pad as _pad
from weft.nn.recurrent import cell_steps
from weft.nn.recurrent.checks import check_pair, check_state, check_step
from weft.ops.primitives import elementwise as call
from weft.tensor.arguments import describe, need_tensor, widen


def _statistics(x: Tensor, axes: tuple[int, ...], eps: float, keepdim: bool) -> tuple[Any, Any]:
    """Mean and 1 / deviation over axes, in at least float32."""
    wide = widen(x)
    variance = wide.var(axes, correction=0, keepdim=keepdim)
    return wide.mean(axes, keepdim=keepdim), call("rsqrt", variance + eps)


def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Any, Any, Any]:
    """(`layer_norm`, mean, 1 / deviation). Shapes: statistics (*, 1, ..., 1)."""
    for name, part in (("weight", weight), ("bias", bias)):
        if part is not None and part._shape != tuple(normalized_shape):
            raise ShapeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(part._shape)} and normalized_shape = {list(normalized_shape)}",
                expected=str(list(normalized_shape)),
                got=describe(name, part),
                fix=f"reshape the {name}",
            )
    result = layer_norm(input, normalized_shape, weight, bias, eps)
    rank = len(input._shape)
    axes = tuple(range(rank - len(tuple(normalized_shape)), rank))
    mean, scale = _statistics(input, axes, eps, True)
    statistics = (cast(mean, input._dtype), cast(scale, input._dtype))
    return result, *(part.detach() for part in statistics)


def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Any, Any, Any]:
    """(`group_norm`, mean, 1 / deviation). Shapes: statistics (N, group)."""
    result = group_norm(input, group, weight, bias, eps)
    rows = input.reshape(N, group, C // group * HxW)
    mean, scale = _statistics(rows, (2,), eps, False)
    return result, cast(mean, input._dtype), cast(scale, input._dtype)


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    *,
    out: Tensor | None = None,
) -> tuple[Any, Any, Any]:
    """(`batch_norm`, mean, 1 / deviation); the statistics are empty outside training. Shapes: statistics (C)."""
    need_tensor("native_batch_norm", input)
    result = batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    beside = (p._dtype for p in (weight, bias, running_mean, running_var) if p is not None)
    dtype = next((d for d in beside if d is not input._dtype), input._dtype)
    if not training:
        none = input.new_empty(0, dtype=dtype)
        return given(out, (result, none, none * 1))
    axes = (0, *range(2, len(input._shape)))
    parts = [cast(part, dtype).detach() for part in _statistics(input, axes, eps, False)]
    return given(out, (result, *parts))


def batch_norm_update_stats(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> tuple[Any, Any]:
    """(mean, variance) of each channel; running statistics move towards them by the share `momentum`."""
    need_tensor("batch_norm_update_stats", input)
    axes = (0, *range(2, len(input._shape)))
    var, mean = (part.detach() for part in var_mean(input, axes, correction=0))
    count = input.numel() // input._shape[1]
    unbiased = var * (count / (count - 1)) if count > 1 else var / 0.0
    for running, batch in ((running_mean, mean), (running_var, unbiased)):
        if running is not None:
            running.copy_(running * (1 - momentum) + batch * momentum)
    return mean, var


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Scalar = 0) -> Any:
    """`nn.functional.pad` with a constant."""
    if not isinstance(pad, (tuple, list)):
        raise ArgumentTypeError(
            f"constant_pad_nd(): argument 'pad' must be tuple of ints, not {class_name(pad)}",
            expected="two widths per dimension, the last dimension first",
            got=type(pad).__name__,
            fix="pass a tuple",
        )
    return _pad(input, pad, "constant", value)


def _sampled(input: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Any:
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    return grid_sample(input, grid, modes[mode], paddings[padding], align_corners)


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`grid_sampler_2d` or `grid_sampler_3d`, as the input has dimensions."""
    return _sampled(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`nn.functional.grid_sample` with its modes by number. Shapes: (N, C, H, W), (N, h, w, 2) -> (N, C, h, w)."""
    return _sampled(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`grid_sampler_2d` in three dimensions. Shapes: (N, C, D, H, W), (N, d, h, w, 3) -> (N, C, d, h, w)."""
    return _sampled(input, grid, interpolation_mode, padding_mode, align_corners)


def _gates(
    name: str, input: Tensor, states: Sequence[Tensor], weights: Any, gates: int
) -> tuple[Any, Any]:
    """The contributions of input and state to the gates. Shapes: (N, in), (N, hidden) -> (N, gates * hidden) twice.
    Errors: ArgumentTypeError, ArgumentError, ShapeError."""
    w_ih, w_hh, b_ih, b_hh = weights
    for label, weight in (("w_hh", w_hh), ("w_ih", w_ih)):
        if need_tensor(name, weight, label).dim() != 2 or weight.shape[0] != gates * w_hh.shape[1]:
            raise ShapeError(
                f"{name}: {label} has shape {list(weight.shape)}",
                expected=f"(gates * hidden, size) with {gates} gates",
                got=describe(label, weight),
                fix="pass the weights of a cell, weight_ih and weight_hh",
            )
    check_step(name, input, w_ih.shape[1])
    for number, state in enumerate(states):
        check_state(name, f"hx[{number}]", state, input, w_hh.shape[1])
    return linear(input, w_ih, b_ih), linear(states[0], w_hh, b_hh)


def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Any, Any]:
    """A step of `LSTMCell`. Shapes: (N, in), ((N, hidden), (N, hidden)) -> the pair. Errors: as of `LSTMCell`."""
    pair = check_pair("lstm_cell", hx)
    parts = _gates("lstm_cell", input, pair, (w_ih, w_hh, b_ih, b_hh), 4)
    hidden, memory = cell_steps.lstm_cell(*parts, tuple(pair))
    return hidden, memory


def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Any:
    """A step of `GRUCell`. Shapes: (N, in), (N, hidden) -> (N, hidden). Errors: as of `GRUCell`."""
    parts = _gates("gru_cell", input, (hx,), (w_ih, w_hh, b_ih, b_hh), 3)
    return cell_steps.gru_cell(*parts, (hx,))[0]


def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Any:
    """A step of `RNNCell`. Shapes: (N, in), (N, hidden) -> (N, hidden). Errors: as of `RNNCell`."""
    parts = _gates("rnn_tanh_cell", input, (hx,), (w_ih, w_hh, b_ih, b_hh), 1)
    return cell_steps.tanh_cell(*parts, (hx,))[0]


def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Any:
    """A step of `RNNCell` with relu. Shapes: (N, in), (N, hidden) -> (N, hidden). Errors: as of `RNNCell`."""
    parts = _gates("rnn_relu_cell", input, (hx,), (w_ih, w_hh, b_ih, b_hh), 1)
    return cell_steps.relu_cell(*parts, (hx,))[0]


publish(globals())
