# ruff: noqa: A001, A002 - PyTorch's names
"""Convolutions in one, two and three dimensions, plain and transposed.

What a user may get wrong is checked here; how a convolution is computed and differentiated stands in
`weft.ops.convolution`.
"""

from __future__ import annotations

from typing import Any

from weft.errors import ArgumentError, DTypeError, ShapeError
from weft.functional.arguments import (
    Shape,
    describe,
    need_integer,
    need_rank,
    need_tensor,
    widen,
)
from weft.functional.formats import like_channels
from weft.graph.compositions import composed_of_primitives
from weft.graph.recording import cast
from weft.ops import convolution
from weft.ops.convolution import Geometry
from weft.ops.primitives import reshape


def _checked(value: Any, name: str) -> int:
    least = 0 if name in ("padding", "output_padding") else 1
    number = need_integer(name, value, name)
    if number < least:
        kind = "negative" if least == 0 else "non-positive"
        raise ArgumentError(
            f"{kind} {name} is not supported",
            expected=f"{name} >= {least}",
            got=str(number),
            fix="crop the input by slicing" if least == 0 else f"use {name}=1",
        )
    return number


def numbers(value: Any, count: int, name: str) -> Shape:
    """One number per spatial dimension. Errors: ArgumentError."""
    if isinstance(value, int) or getattr(value, "ndim", 1) == 0:
        return (_checked(value, name),) * count
    found = tuple([_checked(v, name) for v in value])
    if len(found) == 1:
        return found * count
    if len(found) != count:
        raise ArgumentError(
            f"{name}: expected one number or {count}",
            expected=f"{count} numbers",
            got=repr(value),
            fix="pass one number for all dimensions",
        )
    return found


def _padding(
    padding: Any, kernel: Shape, stride: Shape, dilation: Shape
) -> tuple[tuple[int, int], ...]:
    """(before, after) per spatial dimension."""
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding == "same":
        if max(stride) > 1:
            raise ArgumentError(
                "padding='same' is not supported for strided convolutions",
                expected="stride 1",
                got=f"stride {stride}",
                fix="pass the padding as numbers",
            )
        total = [gap * (size - 1) for size, gap in zip(kernel, dilation, strict=True)]
        return tuple([(both // 2, both - both // 2) for both in total])
    if isinstance(padding, str):
        raise ArgumentError(
            f"padding must be 'valid', 'same' or numbers, got {padding!r}",
            expected="'valid', 'same' or numbers",
            got=repr(padding),
            fix="choose one of these",
        )
    both = numbers(padding, len(kernel), "padding")
    if min(both) < 0:
        raise ArgumentError(
            "negative padding is not supported",
            expected="padding >= 0",
            got=str(padding),
            fix="crop the input by slicing",
        )
    return tuple([(width, width) for width in both])


def _check_weight(name: str, weight: Any, bias: Any, spatial: int) -> None:
    need_tensor(name, weight, "weight", 2)
    if bias is not None:
        need_tensor(name, bias, "bias", 3)
    if len(weight._shape) != spatial + 2:
        raise ShapeError(
            f"{name}: expected a weight of {spatial + 2} dimensions, got {len(weight._shape)}",
            expected=f"(out, in / groups, *) with {spatial} sizes",
            got=describe("weight", weight),
            fix="reshape the weight, or use the convolution of its rank",
        )


def _check(name: str, input: Any, weight: Any, bias: Any, groups: int, spatial: int) -> None:
    need_tensor(name, input)
    _check_weight(name, weight, bias, spatial)
    if groups <= 0:
        raise ArgumentError(
            "non-positive groups is not supported",
            expected="groups > 0",
            got=str(groups),
            fix="use groups=1",
        )
    if len(input._shape) not in (spatial + 1, spatial + 2):
        raise ShapeError(
            f"Expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input to {name}, but got "
            f"input of size: {list(input._shape)}",
            expected=f"(N, C, *) with {spatial} sizes",
            got=describe("input", input),
            fix="add the channel dimension with unsqueeze",
        )
    if input._dtype is not weight._dtype:
        raise DTypeError(
            f"Input type ({input._dtype.name}) and bias type ({weight._dtype.name}) should be the same",
            expected="one dtype",
            got=f"{describe('input', input)}, {describe('weight', weight)}",
            fix="convert one with .to(other.dtype)",
        )
    if bias is not None and bias._dtype is not input._dtype:
        raise DTypeError(
            f"Input type ({input._dtype.name}) and bias type ({bias._dtype.name}) should be the same",
            expected="one dtype",
            got=f"{describe('input', input)}, {describe('bias', bias)}",
            fix="convert one with .to(other.dtype)",
        )
    channels = input._shape[-spatial - 1]
    if channels != weight._shape[1] * groups or weight._shape[0] % groups:
        raise ShapeError(
            f"Given groups={groups}, weight of size {list(weight._shape)}, expected input{list(input._shape)} to have "
            f"{weight._shape[1] * groups} channels, but got {channels} channels instead",
            expected=f"{weight._shape[1] * groups} channels",
            got=describe("input", input),
            fix=f"build the layer with in_channels={channels}",
        )
    if bias is not None and bias._shape != (weight._shape[0],):
        raise ShapeError(
            f"Given weight of size {list(weight._shape)}, expected bias to be 1-dimensional with "
            f"{weight._shape[0]} elements, but got bias of size {list(bias._shape)} instead",
            expected=f"{weight._shape[0]} numbers",
            got=describe("bias", bias),
            fix="reshape the bias",
        )


def check_kernel(
    input: Any, shape: Shape, kernel: Shape, dilation: Shape, widths: tuple[tuple[int, int], ...]
) -> None:
    """Errors: ShapeError where a kernel is larger than the padded input."""
    spans = [gap * (size - 1) + 1 for size, gap in zip(kernel, dilation, strict=True)]
    padded = [
        size + before + after for size, (before, after) in zip(shape[2:], widths, strict=True)
    ]
    for size, span in zip(padded, spans, strict=True):
        if size < span:
            raise ShapeError(
                f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: "
                f"({' x '.join(map(str, spans))}). Kernel size can't be greater than actual input size",
                expected="an input at least as large as the kernel",
                got=describe("input", input),
                fix="pad the input or use a smaller kernel",
            )


def convolve(
    name: str,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    spatial: int,
) -> Any:
    """The convolution in `spatial` dimensions."""
    groups = need_integer(name, groups, "groups")
    _check(name, input, weight, bias, groups, spatial)
    kernel = weight._shape[2:]
    steps, gaps = numbers(stride, spatial, "stride"), numbers(dilation, spatial, "dilation")
    if min(steps) < 1 or min(gaps) < 1:
        raise ArgumentError(
            "non-positive stride is not supported",
            expected="stride, dilation >= 1",
            got=f"stride={stride}, dilation={dilation}",
            fix="pass 1 or more",
        )
    widths = _padding(padding, kernel, steps, gaps)
    batched = len(input._shape) == spatial + 2
    x = input if batched else reshape(input, (1, *input._shape))
    check_kernel(input, x._shape, kernel, gaps, widths)
    result = convolution.convolve(x, weight, bias, Geometry(steps, widths, gaps, groups))
    if batched:
        return like_channels(result, input, weight)
    return reshape(result, result._shape[1:])


@composed_of_primitives
def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Convolution over (N, C, L). Shapes: weight (O, C / groups, K)."""
    return convolve("conv1d", input, weight, bias, stride, padding, dilation, groups, 1)


@composed_of_primitives
def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Convolution over (N, C, H, W). Shapes: weight (O, C / groups, KH, KW)."""
    return convolve("conv2d", input, weight, bias, stride, padding, dilation, groups, 2)


@composed_of_primitives
def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Convolution over (N, C, D, H, W). Shapes: weight (O, C / groups, KD, KH, KW)."""
    return convolve("conv3d", input, weight, bias, stride, padding, dilation, groups, 3)


# -- transposed ----------------------------------------------------------------------------------------------------


def _transposed(
    name: str,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
    spatial: int,
) -> Any:
    """The transpose of a convolution."""
    groups = need_integer(name, groups, "groups")
    need_tensor(name, input)
    _check_weight(name, weight, bias, spatial)
    need_rank(name, input, spatial + 1)
    batched = len(input._shape) == spatial + 2
    x = input if batched else reshape(input, (1, *input._shape))
    if x._shape[1] != weight._shape[0]:
        raise ShapeError(
            f"Given transposed=1, weight of size {list(weight._shape)}, expected input"
            f"{list(input._shape)} to have {weight._shape[0]} channels, but got {x._shape[1]} channels "
            "instead",
            expected=f"{weight._shape[0]} channels",
            got=describe("input", input),
            fix=f"build the layer with in_channels={x._shape[1]}",
        )
    steps, gaps = numbers(stride, spatial, "stride"), numbers(dilation, spatial, "dilation")
    edges, extra = (
        numbers(padding, spatial, "padding"),
        numbers(output_padding, spatial, "output_padding"),
    )
    reach = [gap * (size - 1) for size, gap in zip(weight._shape[2:], gaps, strict=True)]
    sizes = tuple(
        [
            (places - 1) * step - 2 * edge + far + more + 1
            for places, step, edge, far, more in zip(
                x._shape[2:], steps, edges, reach, extra, strict=True
            )
        ]
    )
    around = tuple([(edge, edge) for edge in edges])
    geometry = Geometry(tuple(steps), around, tuple(gaps), groups)
    if bias is None:
        result = convolution.transposed(x, weight, geometry, sizes)
    else:  # halves are rounded once, after the bias
        result = convolution.transposed(widen(x), widen(weight), geometry, sizes)
        result = cast(result + reshape(bias, (*bias._shape, *(1,) * spatial)), input._dtype)
    if batched:
        return like_channels(result, input, weight)
    return reshape(result, result._shape[1:])


@composed_of_primitives
def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The transpose of conv1d. Shapes: weight (C, O / groups, K)."""
    return _transposed(
        "conv_transpose1d",
        input,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        1,
    )


@composed_of_primitives
def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The transpose of conv2d. Shapes: weight (C, O / groups, KH, KW)."""
    return _transposed(
        "conv_transpose2d",
        input,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        2,
    )


@composed_of_primitives
def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The transpose of conv3d. Shapes: weight (C, O / groups, KD, KH, KW)."""
    return _transposed(
        "conv_transpose3d",
        input,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        3,
    )


__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
]
