# ruff: noqa: A001, A002 - PyTorch's names
"""Convolutions in one, two and three dimensions, plain and transposed.

What a user may get wrong is checked in `conv_arguments`; how a convolution is computed and differentiated stands in
`weft.ops.contractions.convolution`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft._typing import Shape
from weft.engine.api.call_cache import composed_of_primitives
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.functional.support.memory_formats import like_channels
from weft.nn.functional.conv_arguments import (
    check,
    check_extra,
    check_kernel,
    check_transposed_sizes,
    numbers,
    paddings,
)
from weft.ops.contractions import convolution
from weft.ops.contractions.convolution import Geometry
from weft.ops.primitives import reshape
from weft.tensor.arguments import need_integer, widen


def convolve(
    name: str,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int | Sequence[int],
    padding: int | Sequence[int] | str,
    dilation: int | Sequence[int],
    groups: int,
    spatial: int,
) -> Any:
    """The convolution in `spatial` dimensions."""
    groups = need_integer(name, groups, "groups")
    steps, gaps = numbers(stride, spatial, "stride"), numbers(dilation, spatial, "dilation")
    if not isinstance(padding, str):
        padding = numbers(padding, spatial, "padding")
    check(name, input, weight, bias, groups, spatial, False)
    kernel = weight._shape[2:]
    widths = paddings(padding, kernel, steps, gaps)
    batched = len(input._shape) == spatial + 2
    x = input if batched else reshape(input, (1, *input._shape))
    check_kernel(input, x._shape, kernel, gaps, widths)
    result = convolution.convolve(x, weight, bias, Geometry(steps, widths, gaps, groups))
    if batched:
        return like_channels(result, input, weight)
    return reshape(result, result._shape[1:])


@composed_of_primitives
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Shape | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Any:
    """Convolution over (N, C, L). Shapes: weight (O, C / groups, K)."""
    return convolve("conv1d", input, weight, bias, stride, padding, dilation, groups, 1)


@composed_of_primitives
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Any:
    """Convolution over (N, C, H, W). Shapes: weight (O, C / groups, KH, KW)."""
    return convolve("conv2d", input, weight, bias, stride, padding, dilation, groups, 2)


@composed_of_primitives
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Shape | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Any:
    """Convolution over (N, C, D, H, W). Shapes: weight (O, C / groups, KD, KH, KW)."""
    return convolve("conv3d", input, weight, bias, stride, padding, dilation, groups, 3)


# -- transposed ----------------------------------------------------------------------------------------------------


_SIZES = ("stride", "dilation", "padding", "output_padding")


def _transposed(
    spatial: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    groups: int,
    sizes: tuple[int | Sequence[int], ...],
) -> Any:
    """The transpose of a convolution; `sizes`: stride, dilation, padding, output_padding, each one number or one for
    each dimension."""
    name = f"conv_transpose{spatial}d"
    groups = need_integer(name, groups, "groups")
    steps, gaps, edges, extra = [
        numbers(size, spatial, word) for word, size in zip(_SIZES, sizes, strict=True)
    ]
    check(name, input, weight, bias, groups, spatial, True)
    check_extra(spatial, steps, gaps, extra)
    batched = len(input._shape) == spatial + 2
    x = input if batched else reshape(input, (1, *input._shape))
    reach = [gap * (size - 1) for size, gap in zip(weight._shape[2:], gaps, strict=True)]
    results = tuple(
        [
            (places - 1) * step - 2 * edge + far + more + 1
            for places, step, edge, far, more in zip(
                x._shape[2:], steps, edges, reach, extra, strict=True
            )
        ]
    )
    check_transposed_sizes(input, spatial, results)
    around = tuple([(edge, edge) for edge in edges])
    geometry = Geometry(tuple(steps), around, tuple(gaps), groups)
    if bias is None:
        result = convolution.transposed(x, weight, geometry, results)
    else:  # halves are rounded once, after the bias
        result = convolution.transposed(widen(x), widen(weight), geometry, results)
        result = cast(result + reshape(bias, (*bias._shape, *(1,) * spatial)), input._dtype)
    if batched:
        return like_channels(result, input, weight)
    return reshape(result, result._shape[1:])


@composed_of_primitives
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Any:
    """The transpose of conv1d. Shapes: weight (C, O / groups, K)."""
    return _transposed(1, input, weight, bias, groups, (stride, dilation, padding, output_padding))


@composed_of_primitives
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Any:
    """The transpose of conv2d. Shapes: weight (C, O / groups, KH, KW)."""
    return _transposed(2, input, weight, bias, groups, (stride, dilation, padding, output_padding))


@composed_of_primitives
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Any:
    """The transpose of conv3d. Shapes: weight (C, O / groups, KD, KH, KW)."""
    return _transposed(3, input, weight, bias, groups, (stride, dilation, padding, output_padding))


__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
]
