# ruff: noqa: A001, A002 - PyTorch's names
"""Patches as columns and back, and channels rearranged.

`unfold` reads windows as views; `fold` adds columns at the places that they were read from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.errors import ShapeError
from weft.functional import host
from weft.functional.arguments import describe, need_integer, need_rank, need_tensor
from weft.functional.formats import like_channels
from weft.nn.functional_conv import check_kernel, numbers
from weft.ops import convolution
from weft.ops.primitives import full, permute, reshape, take_add


def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """The patches of (N, C, H, W) as columns. Shapes: (N, C * KH * KW, positions)."""
    kernel, steps = numbers(kernel_size, 2, "kernel_size"), numbers(stride, 2, "stride")
    gaps, widths = numbers(dilation, 2, "dilation"), numbers(padding, 2, "padding")
    need_tensor("unfold", input)
    if len(input._shape) not in (3, 4):
        raise ShapeError(
            f"Expected 3D or 4D (batch mode) tensor for input, but got: {list(input._shape)}",
            expected="(C, H, W) or (N, C, H, W)",
            got=describe("input", input),
            fix="add dimensions with unsqueeze",
        )
    x = input if len(input._shape) == 4 else reshape(input, (1, *input._shape))
    edges = tuple([(width, width) for width in widths])
    check_kernel(input, x._shape, kernel, gaps, edges)
    views = convolution.windows(convolution.margins(x, edges), kernel, steps, gaps)
    count = convolution.count
    columns = reshape(
        permute(views, (0, 1, 4, 5, 2, 3)),
        (x._shape[0], x._shape[1] * count(kernel), count(views._shape[2:4])),
    )
    return columns if len(input._shape) == 4 else reshape(columns, columns._shape[1:])


def _places(output: Any, kernel: Any, gaps: Any, widths: Any, steps: Any) -> tuple[Any, Any]:
    """Where each (window place, position) lies in the padded output, and the padded sizes."""
    padded = [size + 2 * width for size, width in zip(output, widths, strict=True)]
    counts = [
        (size - gap * (width - 1) - 1) // step + 1
        for size, width, gap, step in zip(padded, kernel, gaps, steps, strict=True)
    ]
    rows = np.arange(kernel[0])[:, None] * gaps[0] + np.arange(max(counts[0], 0)) * steps[0]
    columns = np.arange(kernel[1])[:, None] * gaps[1] + np.arange(max(counts[1], 0)) * steps[1]
    places = rows[:, None, :, None] * padded[1] + columns[None, :, None, :]  # (kh, kw, ph, pw)
    return places, padded


def _check_columns(input: Any, kernel: Any, output: Any, places: Any) -> None:
    rank, patch = len(input._shape), kernel[0] * kernel[1]
    positions = places.shape[2] * places.shape[3]
    if rank not in (2, 3) or 0 in input._shape[-2:]:
        text = (
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
            f"dimensions for input, but got: {list(input._shape)}"
        )
    elif input._shape[-2] % patch:
        text = (
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={input._shape[-2]} and kernel_size={kernel}."
        )
    elif input._shape[-1] != positions:
        text = (
            f"Given output_size={output}, kernel_size={kernel}, expected size of input's dimension 2 to "
            f"match the calculated number of sliding blocks {places.shape[2]} * {places.shape[3]} = "
            f"{positions}, but got input.size(2)={input._shape[-1]}."
        )
    else:
        return
    raise ShapeError(
        text,
        expected=f"(N, C * {patch}, {positions})",
        got=describe("input", input),
        fix="pass the sizes that unfold was given",
    )


def fold(
    input: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    """Columns added up at the places that `unfold` read them from. Shapes: (N, C * KH * KW, positions) -> (N, C, H, W).
    Errors: ShapeError."""
    kernel, steps = numbers(kernel_size, 2, "kernel_size"), numbers(stride, 2, "stride")
    gaps, widths = numbers(dilation, 2, "dilation"), numbers(padding, 2, "padding")
    output = numbers(output_size, 2, "output_size")
    need_tensor("fold", input)
    places, padded = _places(output, kernel, gaps, widths, steps)
    _check_columns(input, kernel, output, places)
    x = input if len(input._shape) == 3 else reshape(input, (1, *input._shape))
    batch, channels = x._shape[0], x._shape[1] // (kernel[0] * kernel[1])
    lines = reshape(x, (batch, channels, places.size))
    canvas = full((batch, channels, padded[0] * padded[1]), 0, x._dtype)
    result = take_add(canvas, 2, host.from_numpy(places.reshape(-1)), lines)
    result = reshape(result, (batch, channels, *padded))
    result = convolution.margins(result, tuple([(-width, -width) for width in widths]))
    return result if len(input._shape) == 3 else reshape(result, result._shape[1:])


def channel_shuffle(input: Any, groups: int) -> Any:
    """(N, g c, *) seen as (N, g, c, *) and transposed to (N, c, g, *)."""
    need_rank("channel_shuffle", need_tensor("channel_shuffle", input), 3)
    number = need_integer("channel_shuffle", groups, "groups", 1)
    channels = input._shape[1]
    if channels % number:
        raise ShapeError(
            "Number of channels must be divisible by groups. Got "
            f"{channels} channels and {number} groups.",
            expected=f"channels divisible by {number}",
            got=describe("input", input),
            fix="choose groups that divide the channels",
        )
    batch, rest = input._shape[0], input._shape[2:]
    x = reshape(input, (batch, number, channels // number, *rest))
    made = reshape(permute(x, (0, 2, 1, *range(3, 3 + len(rest)))), input._shape)
    return like_channels(made, input)


native_channel_shuffle = channel_shuffle

__all__ = ["channel_shuffle", "fold", "native_channel_shuffle", "unfold"]
