# ruff: noqa: A002 - PyTorch's names
"""Backward kernels by PyTorch's names (`weft.ops.aten.convolution_backward`), which packages with own derivatives call.

Each is the product of a cotangent with the Jacobian of the function that it belongs to, at the operands that the kernel
is given: the function's own derivative, which can be differentiated again. Statistics and other values that PyTorch's
kernels are handed to save work are not needed, and not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from weft._build.lazy import later
from weft._typing import Scalar
from weft.engine.frontend.tensor import Tensor
from weft.nn import functional

weft: Any = later("weft")
_REDUCTIONS = ("none", "mean", "sum")
Sizes = Sequence[int]
Mask = Sequence[bool]


def _pulled(
    forward: Callable[..., object], primals: Sequence[Tensor | None], cotangent: Tensor
) -> list[Any]:
    """The cotangents of the operands of a function; None of one that is None."""
    there = [primal for primal in primals if primal is not None]

    def applied(*given: Tensor) -> Any:
        values = iter(given)
        return forward(*(None if primal is None else next(values) for primal in primals))

    found = iter(weft.func.vjp(applied, *there)[1](cotangent))
    return [None if primal is None else next(found) for primal in primals]


def _one(forward: Callable[..., object], primal: Tensor, cotangent: Tensor) -> Any:
    """The cotangent of the only operand of a function."""
    return _pulled(forward, [primal], cotangent)[0]


def _linear(forward: Callable[..., object], sizes: Sizes, cotangent: Tensor) -> Any:
    """The cotangent of the operand of a linear function, whose value does not matter."""
    return _one(forward, cotangent.new_zeros(tuple(sizes)), cotangent)


def _masked(found: Sequence[object], mask: Mask) -> tuple[Any, ...]:
    """Those that are wanted, and None."""
    return tuple(one if wanted else None for one, wanted in zip(found, mask, strict=True))


# -- layers ------------------------------------------------------------------------------------------------------------


def native_layer_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Sizes,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Mask,
) -> Any:
    """The cotangents of input, weight and bias of `layer_norm`."""

    def forward(x: Tensor, w: Tensor | None, b: Tensor | None) -> Any:
        return functional.layer_norm(x, normalized_shape, w, b)

    return _masked(_pulled(forward, [input, weight, bias], grad_out), output_mask)


def native_group_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Mask,
) -> Any:
    """The cotangents of input, weight and bias of `group_norm`."""
    bias = None if weight is None else weft.zeros_like(weight)

    def forward(x: Tensor, w: Tensor | None, b: Tensor | None) -> Any:
        return functional.group_norm(x, group, w, b)

    return _masked(_pulled(forward, [input, weight, bias], grad_out), output_mask)


def native_batch_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_invstd: Tensor | None,
    train: bool,
    eps: float,
    output_mask: Mask,
) -> Any:
    """The cotangents of input, weight and bias of `batch_norm`."""
    scale = input.new_ones(input.shape[1]) if weight is None else weight
    statistics = (None, None) if train else (running_mean, running_var)

    def forward(x: Tensor, w: Tensor, b: Tensor) -> Any:
        return functional.batch_norm(x, *statistics, w, b, train, 0.0, eps)

    found = _pulled(forward, [input, scale, weft.zeros_like(scale)], grad_out)
    return _masked(found, output_mask)


def convolution_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_sizes: Sizes | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    output_mask: Mask,
) -> Any:
    """The cotangents of input, weight and bias of a convolution."""
    more = (*[output_padding] * transposed, groups, dilation) if transposed else (dilation, groups)

    def forward(x: Tensor, w: Tensor) -> Any:
        name = f"conv_transpose{x.dim() - 2}d" if transposed else f"conv{x.dim() - 2}d"
        return getattr(functional, name)(x, w, None, stride, padding, *more)

    others = [axis for axis in range(grad_output.dim()) if axis != 1]
    found = _pulled(forward, [input, weight], grad_output)
    return _masked([*found, grad_output.sum(others)], output_mask)


def linear_backward(self: Tensor, grad_output: Tensor, weight: Tensor, output_mask: Mask) -> Any:
    """The cotangents of input, weight and bias of `linear`."""
    found = _pulled(functional.linear, [self, weight], grad_output)
    bias = grad_output.reshape(-1, grad_output.shape[-1]).sum(0)
    return _masked([*found, bias], output_mask)


def embedding_dense_backward(
    grad_output: Tensor,
    indices: Tensor,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Any:
    """The cotangent of the table of `embedding`."""

    def forward(table: Tensor) -> Any:
        keep = None if padding_idx < 0 else padding_idx
        return functional.embedding(indices, table, keep, scale_grad_by_freq=scale_grad_by_freq)

    return _linear(forward, (num_weights, grad_output.shape[-1]), grad_output)


# -- losses ------------------------------------------------------------------------------------------------------------


def _of_loss(
    loss: Callable[..., object],
    grad_output: Tensor,
    primal: Tensor,
    target: Tensor,
    *more: object,
    reduction: int,
    **options: object,
) -> Any:
    """The cotangent of the input of a loss, whose reduction is given by number."""
    word = _REDUCTIONS[reduction]
    return _one(lambda x: loss(x, target, *more, reduction=word, **options), primal, grad_output)


def mse_loss_backward(grad_output: Tensor, self: Tensor, target: Tensor, reduction: int) -> Any:
    """The cotangent of `mse_loss`'s input."""
    return _of_loss(functional.mse_loss, grad_output, self, target, reduction=reduction)


def smooth_l1_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, beta: float
) -> Any:
    """The cotangent of `smooth_l1_loss`'s input."""
    loss = functional.smooth_l1_loss
    return _of_loss(loss, grad_output, self, target, reduction=reduction, beta=beta)


def huber_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, delta: float
) -> Any:
    """The cotangent of `huber_loss`'s input."""
    loss = functional.huber_loss
    return _of_loss(loss, grad_output, self, target, reduction=reduction, delta=delta)


def soft_margin_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int
) -> Any:
    """The cotangent of `soft_margin_loss`'s input."""
    return _of_loss(functional.soft_margin_loss, grad_output, self, target, reduction=reduction)


def binary_cross_entropy_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = 1,
) -> Any:
    """The cotangent of `binary_cross_entropy`'s input."""
    loss = functional.binary_cross_entropy
    return _of_loss(loss, grad_output, self, target, weight, reduction=reduction)


def nll_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Any:
    """The cotangent of `nll_loss`'s input; also as `nll_loss2d_backward`."""
    loss, given = functional.nll_loss, (grad_output, self, target, weight)
    return _of_loss(loss, *given, reduction=reduction, ignore_index=ignore_index)


# -- activations -------------------------------------------------------------------------------------------------------


def elu_backward(
    grad_output: Tensor,
    alpha: Scalar,
    scale: Scalar,
    input_scale: Scalar,
    is_result: bool,
    self_or_result: Tensor,
) -> Any:
    """The cotangent of `elu`'s input, by that or by its result."""
    value = self_or_result
    below = value + alpha * scale if is_result else alpha * scale * (value * input_scale).exp()
    return grad_output * weft.where(value > 0, scale, input_scale * below)


def hardshrink_backward(grad_out: Tensor, self: Tensor, lambd: float) -> Any:
    """The cotangent of `hardshrink`'s input."""
    return _one(lambda x: functional.hardshrink(x, lambd), self, grad_out)


def softshrink_backward(grad_output: Tensor, self: Tensor, lambd: float) -> Any:
    """The cotangent of `softshrink`'s input."""
    return _one(lambda x: functional.softshrink(x, lambd), self, grad_output)


def log_sigmoid_backward(grad_output: Tensor, self: Tensor, buffer: Tensor) -> Any:
    """The cotangent of `logsigmoid`'s input."""
    return _one(functional.logsigmoid, self, grad_output)


def logit_backward(grad_output: Tensor, self: Tensor, eps: float | None = None) -> Any:
    """The cotangent of `logit`'s input."""
    return _one(lambda x: weft.logit(x, eps), self, grad_output)


# -- pools and pictures ----------------------------------------------------------------------------------------------


def avg_pool2d_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Sizes,
    stride: Sizes,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    """The cotangent of the input of `avg_pool2d` and `avg_pool3d`."""
    pool = getattr(functional, f"avg_pool{len(tuple(kernel_size))}d")
    more = (stride or None, padding, ceil_mode, count_include_pad, divisor_override)
    return _one(lambda x: pool(x, kernel_size, *more), self, grad_output)


def adaptive_avg_pool2d_backward(grad_output: Tensor, self: Tensor) -> Any:
    """The cotangent of `adaptive_avg_pool2d`'s input."""
    size = tuple(grad_output.shape[-2:])
    return _one(lambda x: functional.adaptive_avg_pool2d(x, size), self, grad_output)


def adaptive_avg_pool3d_backward(grad_output: Tensor, self: Tensor) -> Any:
    """The cotangent of `adaptive_avg_pool3d`'s input."""
    size = tuple(grad_output.shape[-3:])
    return _one(lambda x: functional.adaptive_avg_pool3d(x, size), self, grad_output)


def adaptive_max_pool2d_backward(grad_output: Tensor, self: Tensor, indices: Tensor) -> Any:
    """The cotangent of `adaptive_max_pool2d`'s input: at the elements that were the largest."""
    return _at_indices(grad_output, self, indices, 2)


def adaptive_max_pool3d_backward(grad_output: Tensor, self: Tensor, indices: Tensor) -> Any:
    """The cotangent of `adaptive_max_pool3d`'s input: at the elements that were the largest."""
    return _at_indices(grad_output, self, indices, 3)


def max_pool3d_with_indices_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    indices: Tensor,
) -> Any:
    """The cotangent of `max_pool3d`'s input: at the elements that were the largest."""
    return _at_indices(grad_output, self, indices, 3)


def _at_indices(grad_output: Tensor, self: Tensor, indices: Tensor, inner: int) -> Any:
    """A cotangent added up at places of pictures that are counted through."""
    outer = tuple(self.shape[: self.dim() - inner])
    start = grad_output.new_zeros((*outer, math.prod(self.shape[self.dim() - inner :])))
    places, given = (part.reshape(*outer, -1) for part in (indices, grad_output))
    return start.scatter_add(len(outer), places, given).reshape(self.shape)


def _upsampled(mode: str, aligns: bool) -> Callable[..., Any]:
    """The kernel of a way to resize pictures."""

    def kernel(
        grad_output: Tensor, output_size: Sizes, input_size: Sizes, *more: float | None
    ) -> Any:
        scales = [scale for scale in more[1 if aligns else 0 :] if scale is not None]
        sizes = {"scale_factor": tuple(scales)} if scales else {"size": tuple(output_size)}
        options = {"align_corners": more[0]} if aligns else {}

        def resize(x: Tensor) -> Any:
            return functional.interpolate(x, mode=mode, **sizes, **options)

        return _linear(resize, input_size, grad_output)

    return kernel


def _padded(mode: str) -> Callable[..., Any]:
    """The kernel of a way to pad."""

    def kernel(grad_output: Tensor, self: Tensor, padding: Sizes) -> Any:
        return _one(lambda x: functional.pad(x, tuple(padding), mode=mode), self, grad_output)

    return kernel


def grid_sampler_2d_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Mask,
) -> Any:
    """The cotangents of picture and grid of `grid_sample`; also as `grid_sampler_3d_backward`."""
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    padding = ("zeros", "border", "reflection")[padding_mode]

    def forward(picture: Tensor, places: Tensor) -> Any:
        return functional.grid_sample(picture, places, mode, padding, align_corners)

    return _masked(_pulled(forward, [input, grid], grad_output), output_mask)


# -- parts of tensors ------------------------------------------------------------------------------------------------


def select_backward(grad_output: Tensor, input_sizes: Sizes, dim: int, index: int) -> Any:
    """The cotangent of `select`'s input."""
    return _linear(lambda x: x.select(dim, index), input_sizes, grad_output)


def slice_backward(
    grad_output: Tensor, input_sizes: Sizes, dim: int, start: int, end: int, step: int
) -> Any:
    """The cotangent of the input of a slice."""
    end = min(end, tuple(input_sizes)[dim])

    def forward(x: Tensor) -> Any:
        return x.transpose(0, dim)[start:end:step].transpose(0, dim)

    return _linear(forward, input_sizes, grad_output)


def diagonal_backward(
    grad_output: Tensor, input_sizes: Sizes, offset: int, dim1: int, dim2: int
) -> Any:
    """The cotangent of `diagonal`'s input."""
    return _linear(lambda x: x.diagonal(offset, dim1, dim2), input_sizes, grad_output)


def unfold_backward(grad_in: Tensor, input_sizes: Sizes, dim: int, size: int, step: int) -> Any:
    """The cotangent of `Tensor.unfold`'s input."""
    return _linear(lambda x: x.unfold(dim, size, step), input_sizes, grad_in)


def index_select_backward(grad: Tensor, self_sizes: Sizes, dim: int, index: Tensor) -> Any:
    """The cotangent of `index_select`'s input."""
    return _linear(lambda x: x.index_select(dim, index), self_sizes, grad)


def gather_backward(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, sparse_grad: bool = False
) -> Any:
    """The cotangent of `gather`'s input."""
    return _one(lambda x: x.gather(dim, index), self, grad)


def masked_select_backward(grad: Tensor, input: Tensor, mask: Tensor) -> Any:
    """The cotangent of `masked_select`'s input."""
    return _one(lambda x: x.masked_select(mask), input, grad)


def trace_backward(grad: Tensor, sizes: Sizes) -> Any:
    """The cotangent of `trace`'s input."""
    return _linear(weft.trace, sizes, grad)


def value_selecting_reduction_backward(
    grad: Tensor, dim: int, indices: Tensor, sizes: Sizes, keepdim: bool
) -> Any:
    """The cotangent of the input of a function that picks an element along a dimension, such as `median`."""
    if not keepdim and len(tuple(sizes)):
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return grad.new_zeros(tuple(sizes)).scatter(dim, indices, grad)


KERNELS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        native_layer_norm_backward, native_group_norm_backward, native_batch_norm_backward, convolution_backward,
        linear_backward, embedding_dense_backward, mse_loss_backward, smooth_l1_loss_backward, huber_loss_backward,
        soft_margin_loss_backward, binary_cross_entropy_backward, nll_loss_backward, elu_backward,
        hardshrink_backward, softshrink_backward, log_sigmoid_backward, logit_backward, avg_pool2d_backward,
        adaptive_max_pool2d_backward, adaptive_max_pool3d_backward, max_pool3d_with_indices_backward,
        grid_sampler_2d_backward, select_backward, slice_backward, diagonal_backward, unfold_backward,
        index_select_backward, gather_backward, masked_select_backward, trace_backward,
        value_selecting_reduction_backward,
    )
} | {
    "nll_loss2d_backward": nll_loss_backward,
    "avg_pool3d_backward": avg_pool2d_backward,
    "grid_sampler_3d_backward": grid_sampler_2d_backward,
    "_adaptive_avg_pool2d_backward": adaptive_avg_pool2d_backward,
    "_adaptive_avg_pool3d_backward": adaptive_avg_pool3d_backward,
    "adaptive_avg_pool3d_backward": adaptive_avg_pool3d_backward,
    "upsample_nearest1d_backward": _upsampled("nearest", False),
    "upsample_nearest2d_backward": _upsampled("nearest", False),
    "upsample_nearest3d_backward": _upsampled("nearest", False),
    "_upsample_nearest_exact1d_backward": _upsampled("nearest-exact", False),
    "_upsample_nearest_exact2d_backward": _upsampled("nearest-exact", False),
    "_upsample_nearest_exact3d_backward": _upsampled("nearest-exact", False),
    "upsample_linear1d_backward": _upsampled("linear", True),
    "upsample_bilinear2d_backward": _upsampled("bilinear", True),
    "upsample_bicubic2d_backward": _upsampled("bicubic", True),
    "upsample_trilinear3d_backward": _upsampled("trilinear", True),
    **{f"reflection_pad{rank}d_backward": _padded("reflect") for rank in (1, 2, 3)},
    **{f"replication_pad{rank}d_backward": _padded("replicate") for rank in (1, 2, 3)},
}  # fmt: skip
