"""Layers on ragged input: embeddings, norms, channels.

If a dimension that a layer treats by itself (channels, normalized dimensions) is uniform, the dense function runs on
the entries of all items; statistics over a ragged dimension are those of the existing entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft._typing import Shape
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, NotDefinedError
from weft.nested.elementwise import fit
from weft.nested.tensor import NestedTensor, shape_text


def _refuse(name: str, input: NestedTensor, expected: str, fix: str) -> NotDefinedError:
    return NotDefinedError(
        f"{name} of a ragged tensor of shape {list(input.shape)}",
        expected=expected,
        got=shape_text(input),
        fix=fix,
    )


def embedding(
    function: Callable[..., Tensor],
    input: NestedTensor,
    weight: object,
    *args: object,
    **kwargs: object,
) -> Any:
    """A row of `weight` for each index. Shapes: (B, j), (rows, D) -> (B, j, D)."""
    if isinstance(weight, NestedTensor):
        raise _refuse("an embedding's weight", weight, "a dense weight", "pass weight.values()")
    return input.like(function(input.packed, weight, *args, **kwargs))


def by_value(
    function: Callable[..., Tensor], input: NestedTensor, *args: object, **kwargs: object
) -> Any:
    """one_hot, whose classes are a new dimension at the end, and bucketize."""
    if any(isinstance(one, NestedTensor) for one in (*args, *kwargs.values())):
        raise _refuse(function.__name__, input, "dense arguments beside the input", "use .values()")
    return input.like(function(input.packed, *args, **kwargs))


def embedding_bag(
    function: Callable[..., object],
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sum, mean or largest of the rows of each item. Shapes: (B, j), (rows, D) -> (B, D)."""
    if offsets is not None or not isinstance(input, NestedTensor) or input.ndim != 2:
        raise ArgumentError(
            "embedding_bag of ragged indices",
            expected="ragged input (B, j), and no offsets: the structure has them",
            got=shape_text(input),
            fix="leave offsets out",
        )
    weights = per_sample_weights
    if isinstance(weights, NestedTensor):
        weights = fit("embedding_bag", weights, input)
    options = (max_norm, norm_type, scale_grad_by_freq, mode, sparse)
    return function(input.packed, weight, input.offsets(), *options, weights, True, padding_idx)


def over_last(
    function: Callable[..., Tensor],
    input: NestedTensor,
    normalized_shape: Shape,
    *args: object,
    **kwargs: object,
) -> Any:
    """layer_norm and rms_norm over the last dimensions."""
    count = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    if any(dim >= input.ndim - count for dim in input.dims):
        raise _refuse(
            function.__name__,
            input,
            f"{count} uniform dimensions at the end",
            "transpose the ragged one",
        )
    return input.like(function(input.packed, normalized_shape, *args, **kwargs))


def _need_channels(name: str, input: NestedTensor) -> None:
    if input.ndim < 2 or 1 in input.dims:
        raise _refuse(
            name,
            input,
            "channels in dimension 1: (B, C, j)",
            "call input.transpose(1, 2), and back",
        )


def batch_norm(
    function: Callable[..., Tensor], input: NestedTensor, *args: object, **kwargs: object
) -> Any:
    """Statistics of each channel over all entries of all items. Shapes: (B, C, *)."""
    _need_channels("batch_norm", input)
    return input.like(function(input.packed, *args, **kwargs))


def instance_norm(
    function: Callable[..., object],
    input: NestedTensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Statistics of each channel over each item. Shapes: (B, C, j)."""
    _need_channels("instance_norm", input)
    if running_mean is not None or running_var is not None:
        raise _refuse(
            "instance_norm with running statistics", input, "none", "track_running_stats=False"
        )
    return _affine(_standard(input, tuple(range(2, input.ndim)), eps), weight, bias)


def group_norm(
    function: Callable[..., object],
    input: NestedTensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Any:
    """Statistics of each group of channels over each item. Shapes: (B, C, j)."""
    _need_channels("group_norm", input)
    channels = input.size(1)
    if channels % num_groups:
        raise ArgumentError(
            f"Expected number of channels in input to be divisible by num_groups, got {channels} and {num_groups}",
            expected=f"a divisor of {channels}",
            got=str(num_groups),
            fix="choose another number of groups",
        )
    split = input.unflatten(1, (num_groups, channels // num_groups))
    found = _standard(split, tuple(range(2, split.ndim)), eps).flatten(1, 2)
    return _affine(found, weight, bias)


def _standard(input: NestedTensor, dims: tuple[int, ...], eps: float) -> Any:
    away = input - input.mean(dims, True)
    return away * (weft.mean(away * away, dims, True) + eps).rsqrt()


def _affine(input: NestedTensor | Tensor, weight: Tensor | None, bias: Tensor | None) -> Any:
    shape = (-1, *(1,) * (input.ndim - 2))
    if weight is not None:
        input = input * weight.reshape(shape)
    return input if bias is None else input + bias.reshape(shape)


def glu(function: Callable[..., object], input: Any, dim: int = -1) -> Any:
    """Half of a uniform dimension, gated by the other."""
    place = input.dimension(dim)
    if place not in input.uniform:
        raise _refuse("glu", input, "a uniform dimension", "pass dim of a uniform dimension")
    return input.like(function(input.packed, input.axis(place)))


def prelu(function: Callable[..., Tensor], input: Any, weight: Tensor) -> Any:
    """Slopes for negative elements: one, or one for each channel."""
    if weight.numel() > 1:
        _need_channels("prelu", input)
        weight = weight.reshape(-1, *(1,) * (input.ndim - 2))
    return weft.where(input > 0, input, input * weight)


RULES = {
    "embedding": embedding, "one_hot": by_value, "bucketize": by_value,
    "embedding_bag": embedding_bag, "layer_norm": over_last,
    "rms_norm": over_last, "batch_norm": batch_norm, "instance_norm": instance_norm,
    "group_norm": group_norm, "glu": glu, "prelu": prelu,
}  # fmt: skip
