# ruff: noqa: A002 - PyTorch's names
"""Checks of a convolution's arguments: tensors that fit together, and one number per spatial dimension.

They take arguments as the user wrote them and return sizes, strides and paddings as tuples, or raise an error at the
call with PyTorch's words as its first line. Pooling and folding check their numbers here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, DTypeError, ShapeError
from weft.tensor.arguments import (
    C_NAMES,
    TYPE_NAMES,
    Shape,
    describe,
    need_integer,
    need_tensor,
)

# -- numbers -------------------------------------------------------------------------------------------------------


def _too_small(name: str, number: int) -> str:
    if name in ("padding", "output_padding"):
        return f"negative {name} is not supported"
    more = ": dilation should be greater than zero" if name == "dilation" else ""
    return f"non-positive {name} is not supported{more}"


def _too_many(name: str, count: int, given: Shape) -> str:
    return (
        f"expected {name} to be a single integer value or a list of {count} values to match the "
        f"convolution dimensions, but got {name}={list(given)}"
    )


def _checked(
    value: int | Shape | Sequence[int], name: str, too_small: Callable[[str, int], str]
) -> int:
    least = 0 if name in ("padding", "output_padding", "output_size") else 1
    number = need_integer(name, value, name)
    if number < least:
        raise ArgumentError(
            too_small(name, number),
            expected=f"{name} >= {least}",
            got=str(number),
            fix=f"use {name}=1" if least else "crop the input by slicing",
        )
    return number


def numbers(
    value: int | Sequence[int],
    count: int,
    name: str,
    too_small: Callable[[str, int], str] = _too_small,
    too_many: Callable[[str, int, Any], str] = _too_many,
) -> Shape:
    """One number per spatial dimension; what is said of others is that of convolutions, unless the caller has words
    of its own. Errors: ArgumentError."""
    if isinstance(value, int) or getattr(value, "ndim", 1) == 0:
        return (_checked(value, name, too_small),) * count
    found = tuple([_checked(v, name, too_small) for v in value])
    if len(found) == 1:
        return found * count
    if len(found) != count:
        raise ArgumentError(
            too_many(name, count, value),
            expected=f"one number, or {count}",
            got=repr(value),
            fix="pass one number for all dimensions",
        )
    return found


def paddings(
    padding: Shape | str, kernel: Shape, stride: Shape, dilation: Shape
) -> tuple[tuple[int, int], ...]:
    """(before, after) per spatial dimension, of a word or of checked numbers."""
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
            f"Invalid padding string: {padding!r}",
            expected="'valid', 'same' or numbers",
            got=repr(padding),
            fix="choose one of these",
        )
    return tuple([(width, width) for width in padding])


# -- tensors -------------------------------------------------------------------------------------------------------


def check(
    name: str,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    groups: int,
    spatial: int,
    transposed: bool,
) -> None:
    """Errors: ArgumentError, ShapeError, DTypeError where operands do not fit together."""
    need_tensor(name, input)
    need_tensor(name, weight, "weight", 2)
    if bias is not None:
        need_tensor(name, bias, "bias", 3)
    _check_ranks(name, input, weight, spatial)
    _check_types(input, weight, bias)
    _check_groups(weight, groups)
    _check_channels(input, weight, groups, spatial, transposed)
    if bias is not None:
        _check_bias(weight, bias, groups, transposed)


def _check_ranks(name: str, input: Tensor, weight: Tensor, spatial: int) -> None:
    if len(input._shape) not in (spatial + 1, spatial + 2):
        raise ShapeError(
            f"Expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input to {name}, but got "
            f"input of size: {list(input._shape)}",
            expected=f"(N, C, *) with {spatial} sizes",
            got=describe("input", input),
            fix="add the channel dimension with unsqueeze",
        )
    rank = len(weight._shape)
    if rank != spatial + 2:
        sizes = list(input._shape) if len(input._shape) == spatial + 2 else [1, *input._shape]
        text = (
            f"Expected {rank}-dimensional input for {rank}-dimensional weight {list(weight._shape)}, but got "
            f"{spatial + 2}-dimensional input of size {sizes} instead"
        )
        raise ShapeError(
            text if rank > 2 else "weight should have at least three dimensions",
            expected=f"a weight of {spatial + 2} dimensions, {spatial} of them those of the kernel",
            got=describe("weight", weight),
            fix="reshape the weight, or use the convolution of its rank",
        )


def _check_types(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    have = input._dtype
    if bias is not None and bias._dtype is not have:
        text = f"Input type ({C_NAMES[have.name]}) and bias type ({C_NAMES[bias._dtype.name]}) should be the same"
        got = describe("bias", bias)
    elif weight._dtype is not have:
        text = _types_of_two(have.name, weight._dtype.name)
        got = describe("weight", weight)
    else:
        return
    raise DTypeError(
        text,
        expected="one dtype",
        got=f"{describe('input', input)}, {got}",
        fix="convert one with .to(other.dtype)",
    )


def _types_of_two(input: str, weight: str) -> str:
    """PyTorch's words, which it has by the kernel that it would have taken."""
    if input not in ("float16", "bfloat16"):
        return f"expected scalar type {TYPE_NAMES[input]} but found {TYPE_NAMES[weight]}"
    types = [f"weft.{TYPE_NAMES[name]}Tensor" for name in (input, weight)]
    return f"Input type ({types[0]}) and weight type ({types[1]}) should be the same"


def _check_groups(weight: Tensor, groups: int) -> None:
    first, sizes = weight._shape[0], list(weight._shape)
    if groups <= 0:
        raise ArgumentError(
            "non-positive groups is not supported",
            expected="groups > 0",
            got=str(groups),
            fix="use groups=1",
        )
    if first < groups:
        text = f"at least {groups} at dimension 0, but got weight of size {sizes} instead"
    elif first % groups:
        text = f"divisible by {groups} at dimension 0, but got weight of size [{sizes}] instead"
    else:
        return
    raise ShapeError(
        f"Given groups={groups}, expected weight to be {text}",
        expected=f"a multiple of {groups} channels",
        got=describe("weight", weight),
        fix="build the layer with channels that groups divide",
    )


def _check_channels(
    input: Tensor, weight: Tensor, groups: int, spatial: int, transposed: bool
) -> None:
    channels = input._shape[-spatial - 1]
    wanted = weight._shape[0] if transposed else weight._shape[1] * groups
    if channels != wanted:
        given = "transposed=1" if transposed else f"groups={groups}"
        raise ShapeError(
            f"Given {given}, weight of size {list(weight._shape)}, expected input{list(input._shape)} to have "
            f"{wanted} channels, but got {channels} channels instead",
            expected=f"{wanted} channels",
            got=describe("input", input),
            fix=f"build the layer with in_channels={channels}",
        )


def _check_bias(weight: Tensor, bias: Tensor, groups: int, transposed: bool) -> None:
    wanted = weight._shape[1] * groups if transposed else weight._shape[0]
    if bias._shape != (wanted,):
        given = "transposed=1, " if transposed else ""
        raise ShapeError(
            f"Given {given}weight of size {list(weight._shape)}, expected bias to be 1-dimensional with "
            f"{wanted} elements, but got bias of size {list(bias._shape)} instead",
            expected=f"{wanted} numbers",
            got=describe("bias", bias),
            fix="reshape the bias",
        )


# -- sizes ---------------------------------------------------------------------------------------------------------


def _times(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def check_kernel(
    input: Tensor, shape: Shape, kernel: Shape, dilation: Shape, widths: tuple[tuple[int, int], ...]
) -> None:
    """Errors: ShapeError where a kernel is larger than the padded input."""
    spans = [gap * (size - 1) + 1 for size, gap in zip(kernel, dilation, strict=True)]
    padded = [
        size + before + after for size, (before, after) in zip(shape[2:], widths, strict=True)
    ]
    for size, span in zip(padded, spans, strict=True):
        if size < span:
            raise ShapeError(
                f"Calculated padded input size per channel: ({_times(padded)}). Kernel size: "
                f"({_times(spans)}). Kernel size can't be greater than actual input size",
                expected="an input at least as large as the kernel",
                got=describe("input", input),
                fix="pad the input or use a smaller kernel",
            )


_SIDES = ("depth", "height", "width")


def check_extra(spatial: int, steps: Shape, gaps: Shape, extra: Shape) -> None:
    """Errors: ArgumentError where an output is to be longer than by less than one step of its input."""
    if spatial == 1:
        return
    if all(more < max(step, gap) for more, step, gap in zip(extra, steps, gaps, strict=True)):
        return
    named = [
        f"{word}_{side}: {size}"
        for word, sizes in (("output_padding", extra), ("stride", steps), ("dilation", gaps))
        for side, size in zip(_SIDES[-spatial:], sizes, strict=True)
    ]
    raise ArgumentError(
        f"output padding must be smaller than either stride or dilation, but got {' '.join(named)}",
        expected="output_padding below stride or dilation",
        got=str(list(extra)),
        fix="pad the result with nn.functional.pad",
    )


def check_transposed_sizes(input: Tensor, spatial: int, sizes: Shape) -> None:
    """Errors: ShapeError where the result of a transposed convolution would have no element."""
    if min(sizes) < 1:
        raise ShapeError(
            f"Given input size per channel: ({_times(input._shape[-spatial:])}). Calculated output size per "
            f"channel: ({_times(sizes)}). Output size is too small",
            expected="at least one element in each dimension",
            got=describe("input", input),
            fix="use less padding",
        )


__all__ = ["check", "check_kernel", "check_transposed_sizes", "numbers", "paddings"]
