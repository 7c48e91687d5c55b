# ruff: noqa: A001, A002 - PyTorch's names
"""Patches as columns and back, and channels rearranged.

`unfold` reads windows as views; `fold` adds columns up where they were read from, first along rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from weft.engine.api.call_cache import composed_of_primitives
from weft.engine.frontend.tensor import Tensor
from weft.errors import ShapeError
from weft.functional.support.memory_formats import like_channels
from weft.nn.functional.conv_arguments import check_kernel, numbers
from weft.ops.contractions import convolution
from weft.ops.primitives import permute, reshape
from weft.ops.structure.movement import sum_of_windows
from weft.tensor.arguments import describe, need_integer, need_rank, need_tensor


def check_not_empty(x: Tensor, rank: int) -> None:
    """Errors: ShapeError where another dimension than that of a batch, in front of `rank` others, is empty."""
    if 0 in x._shape[-rank:]:
        raise ShapeError(
            f"Expected {rank}D or {rank + 1}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(x._shape)}",
            expected="elements in all dimensions but the batch",
            got=describe("input", x),
            fix="leave out the call where there is nothing",
        )


@composed_of_primitives
def unfold(
    input: Tensor,
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
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
    check_not_empty(input, 3)
    x = input if len(input._shape) == 4 else reshape(input, (1, *input._shape))
    edges = tuple([(width, width) for width in widths])
    check_kernel(input, x._shape, kernel, gaps, edges)
    views = convolution.windows(convolution.margins(x, edges), kernel, steps, gaps)
    count = math.prod
    columns = reshape(
        permute(views, (0, 1, 4, 5, 2, 3)),
        (x._shape[0], x._shape[1] * count(kernel), count(views._shape[2:4])),
    )
    return columns if len(input._shape) == 4 else reshape(columns, columns._shape[1:])


def _positions(
    output: Sequence[int],
    kernel: Sequence[int],
    gaps: Sequence[int],
    widths: Sequence[int],
    steps: Sequence[int],
) -> tuple[Any, Any]:
    """The number of windows in each dimension of the padded output, and the padded sizes."""
    padded = [size + 2 * width for size, width in zip(output, widths, strict=True)]
    counts = [
        max((size - gap * (width - 1) - 1) // step + 1, 0)
        for size, width, gap, step in zip(padded, kernel, gaps, steps, strict=True)
    ]
    return counts, padded


def _check_columns(
    input: Tensor, kernel: Sequence[int], output: object, counts: Sequence[int]
) -> None:
    rank, patch = len(input._shape), kernel[0] * kernel[1]
    positions = counts[0] * counts[1]
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
            f"match the calculated number of sliding blocks {counts[0]} * {counts[1]} = "
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


@composed_of_primitives
def fold(
    input: Tensor,
    output_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Any:
    """Columns added up at the places that `unfold` read them from. Shapes: (N, C * KH * KW, positions) -> (N, C, H, W).
    Errors: ShapeError."""
    kernel, steps = numbers(kernel_size, 2, "kernel_size"), numbers(stride, 2, "stride")
    gaps, widths = numbers(dilation, 2, "dilation"), numbers(padding, 2, "padding")
    output = numbers(output_size, 2, "output_size")
    need_tensor("fold", input)
    counts, padded = _positions(output, kernel, gaps, widths, steps)
    _check_columns(input, kernel, output, counts)
    x = input if len(input._shape) == 3 else reshape(input, (1, *input._shape))
    batch, channels = x._shape[0], x._shape[1] // (kernel[0] * kernel[1])
    x = reshape(x, (batch, channels, *kernel, *counts))
    x = permute(x, (0, 1, 2, 4, 5, 3))  # (N, C, KH, PH, PW, KW)
    wide = (batch, channels, kernel[0], counts[0], padded[1])
    x = permute(sum_of_windows(x, 4, steps[1], wide, gaps[1]), (0, 1, 3, 4, 2))  # (N, C, PH, W, KH)
    result = sum_of_windows(x, 2, steps[0], (batch, channels, *padded), gaps[0])
    result = convolution.margins(result, tuple([(-width, -width) for width in widths]))
    return result if len(input._shape) == 3 else reshape(result, result._shape[1:])


@composed_of_primitives
def channel_shuffle(input: Tensor, groups: int) -> Any:
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
