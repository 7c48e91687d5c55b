# ruff: noqa: A002 - PyTorch's names
"""Checks of pooling's arguments, in PyTorch's words, which differ by function and rank."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NoReturn

from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, DimensionError, ShapeError, WeftError
from weft.nn.functional import conv_arguments
from weft.tensor.arguments import Shape, describe, need_integer, per_dimension

_AXES = ("W", "HW", "THW")  # the names of the windows' dimensions, by their number
_ONE_BY_ONE = "max_pool1d"  # a function whose errors have words of their own
_COUNTS = ("one int", "a tuple of two ints", "a tuple of three ints")


# -- numbers -------------------------------------------------------------------------------------------------------


def _too_small(function: str, spatial: int, name: str, number: int) -> str:
    if function == _ONE_BY_ONE:
        kind = "non-negative" if name == "padding" else "greater than zero"
        said = f"{function}() {name} must be {kind}, but got {number}"
        return f"{said}; pad must be non-negative" if name == "padding" else said
    if name == "padding":
        return f"pad must be non-negative, but got pad: {number}"
    if name != "dilation" and number == 0:  # a stride that is not given is the kernel's size
        return "stride should not be zero"
    letters = {"kernel_size": "k{}", "stride": "d{}", "dilation": "dilation{}"}[name]
    sizes = " ".join(f"{letters.format(axis)}: {number}" for axis in _AXES[spatial - 1])
    return f"{name.replace('_', ' ')} should be greater than zero, but got {sizes}"


def _too_many(function: str, name: str, count: int, given: Shape) -> str:
    left_out = {"stride": "either be omitted, a single int"}.get(name, "either be a single int")
    if function == _ONE_BY_ONE:
        return (
            f"{function}() {name} must be an int, list of ints or tuple of ints of size 1 but got size "
            f"{len(given)}"
        )
    return f"{function}: {name} must {left_out}, or {_COUNTS[count - 1]}"


def numbers(function: str, value: int | Sequence[int], spatial: int, name: str) -> Shape:
    """One number per dimension of the windows. Errors: ArgumentError."""
    return conv_arguments.numbers(
        value,
        spatial,
        name,
        functools.partial(_too_small, function, spatial),
        functools.partial(_too_many, function),
    )


def _over_half(function: str, width: int, size: int, gap: int) -> str:
    text = (
        f"pad should be at most half of effective kernel size, but got pad={width}, kernel_size={size} and "
        f"dilation={gap}"
    )
    if function != _ONE_BY_ONE:
        return text
    return (
        f"{function}() padding should be at most half of kernel size, but got padding={width} and "
        f"kernel_size={size}: {text}"
    )


def check_padding(function: str, padding: Shape, kernel: Shape, dilation: Shape) -> None:
    """Errors: ShapeError if windows could be in the padding alone."""
    for width, size, gap in zip(padding, kernel, dilation, strict=True):
        if width > size // 2:
            raise ShapeError(
                _over_half(function, width, size, gap),
                expected="padding <= kernel_size / 2",
                got=f"padding={padding}",
                fix="pad the input instead",
            )


# -- tensors -------------------------------------------------------------------------------------------------------


def _ranks(spatial: int) -> str:
    return f"{spatial + 1}D or {spatial + 2}D (batch mode) tensor"


def check_rank(function: str, input: Tensor, spatial: int) -> None:
    """Errors: ShapeError where an input has not the dimensions (N, C, *) or (C, *); of avg_pool2d DimensionError where
    they are fewer."""
    rank = len(input._shape)
    if rank in (spatial + 1, spatial + 2):
        return
    if function == "avg_pool1d":
        _refuse_input(_checked_rank(function, rank, spatial), input, spatial)
    if function == "avg_pool2d" and rank <= spatial:
        _refuse_input(_no_channels(rank), input, spatial, DimensionError)
    if spatial == 1 or function == "avg_pool2d":
        _refuse_input(_optional(function, input, spatial), input, spatial)
    _refuse_input(f"non-empty {_ranks(spatial)} expected for input", input, spatial)


def check_elements(function: str, input: Tensor, spatial: int) -> None:
    """Errors: ShapeError where there is no channel, or nothing to pool."""
    lengths = input._shape[-spatial - 1 :]
    if 0 not in lengths:
        return
    if spatial < 3:
        _refuse_input(_optional(function, input, spatial), input, spatial)
    _refuse_input(
        f"{function}(): Expected input's non-batch dimensions to have positive length, but input has a shape "
        f"of {list(input._shape)} and non-batch dimension {lengths.index(0)} has length zero!",
        input,
        spatial,
    )


def _optional(function: str, input: Tensor, spatial: int) -> str:
    text = f"Expected {_ranks(spatial)} with optional 0 dim batch size for input, but got:{list(input._shape)}"
    return f"{function}: {text}" if spatial == 1 else text


def _checked_rank(function: str, rank: int, spatial: int) -> str:
    return (
        f"Expected {spatial + 1} to {spatial + 2} dimensions, but got {rank}-dimensional tensor for "
        f"argument #1 'self' (while checking arguments for {function})"
    )


def _no_channels(rank: int) -> str:
    """PyTorch looks for the channels before it looks at the rank."""
    first, last = -max(rank, 1), max(rank, 1) - 1
    return f"Dimension out of range (expected to be in range of [{first}, {last}], but got -3)"


def _refuse_input(
    text: str, input: Tensor, spatial: int, error: type[WeftError] = ShapeError
) -> NoReturn:
    raise error(
        text,
        expected=f"(N, C, *) or (C, *) with {spatial} sizes, and elements in all dimensions but N",
        got=describe("input", input),
        fix="reshape the input, or check how it became empty",
    )


_AS_IMAGES = ("avg_pool1d", "lp_pool1d")


def check_places(function: str, input: Tensor, places: Shape, spatial: int) -> None:
    """Errors: ShapeError where no window fits into the input."""
    if min(places) >= 1:
        return
    channels, *sizes = input._shape[-spatial - 1 :]
    line = (1,) if function in _AS_IMAGES else ()  # PyTorch pools a line as an image of one row
    given, made = ("x".join(map(str, (channels, *line, *part))) for part in (sizes, places))
    text = (
        f"Given input size: ({given}). Calculated output size: ({made}). Output size is too small"
    )
    if function == _ONE_BY_ONE:
        text = f"{function}() Invalid computed output size: {places[0]}"
    raise ShapeError(
        text,
        expected="an input at least as large as the window",
        got=describe("input", input),
        fix="use a smaller window, or pad",
    )


# -- adaptive ------------------------------------------------------------------------------------------------------


def check_adaptive(
    function: str, input: Tensor, output_size: int | Sequence[int | None] | None, spatial: int
) -> Shape:
    """The wanted sizes of an adaptive pooling; None is the input's. Errors: ArgumentError, ShapeError."""
    _check_adaptive_input(function, input, output_size, spatial)
    wanted: tuple[int | None, ...] = (
        (None,) * spatial
        if output_size is None
        else per_dimension("output_size", output_size, spatial)
    )
    if len(wanted) != spatial:
        _refuse_size(_wrong_count(function, len(wanted), spatial), output_size, spatial)
    sizes = tuple(
        [
            have if want is None else need_integer(function, want, "output_size")
            for want, have in zip(wanted, input._shape[-spatial:], strict=True)
        ]
    )
    if min(sizes) < 0:
        _refuse_size(_negative(function, input, sizes, spatial), output_size, spatial)
    return sizes


def _check_adaptive_input(
    function: str, input: Tensor, output_size: int | Sequence[int | None] | None, spatial: int
) -> None:
    rank = len(input._shape)
    count = len(output_size) if isinstance(output_size, tuple | list) else 0
    colon = ":" if "max" in function else ""
    text = f"{function}(): Expected {spatial + 1}D or {spatial + 2}D tensor, but got{colon} {list(input._shape)}"
    if spatial == 1:
        text = _checked_rank(function, rank, spatial)
    if spatial > 1 and rank <= count:
        text = f"Input dimension should be at least {count + 1}"
    if rank not in (spatial + 1, spatial + 2):
        raise ArgumentError(
            text,
            expected=f"(N, C, *) or (C, *) with {spatial} sizes",
            got=describe("input", input),
            fix="reshape the input, or use the function of the other rank",
        )
    if 0 in input._shape[-spatial:]:
        raise ShapeError(
            f"{function}(): Expected input to have non-zero size for non-batch dimensions, but input has "
            f"sizes {list(input._shape)} with dimension {input._shape.index(0, rank - spatial)} being empty",
            expected="at least one element in each dimension that is pooled",
            got=describe("input", input),
            fix="check how the input became empty",
        )


def need_elements(function: str, input: Tensor, spatial: int) -> None:
    """Errors: ShapeError where channels, or a dimension that is pooled, are empty; a batch may be."""
    lead = len(input._shape) - spatial - 1
    for dimension, size in enumerate(input._shape[lead:], lead):
        if not size:
            raise ShapeError(
                f"{function}(): Expected input to have non-zero size for non-batch dimensions, but got "
                f"{list(input._shape)} with dimension {dimension} being empty.",
                expected="channels, and elements to pool",
                got=describe("input", input),
                fix="check how the input became empty",
            )


def _wrong_count(function: str, count: int, spatial: int) -> str:
    if spatial == 1:
        return f"{function}() argument 'output_size' should contain one int (got {count})"
    if "max" in function:
        return f"{function}(): internal error: output_size.size() must be {spatial}"
    return f"{function}: output_size must be {spatial}"


def _negative(function: str, input: Tensor, sizes: Shape, spatial: int) -> str:
    if "max" in function:
        shape = [*input._shape[:-spatial], *sizes]
        return f"Trying to create tensor with negative dimension {min(sizes)}: {shape}"
    received = ", ".join(map(str, sizes))
    return (
        f"{function}: elements of output_size must be greater than or equal to 0 but received "
        f"{{{received}}}"
    )


def _refuse_size(
    text: str, output_size: int | Sequence[int | None] | None, spatial: int
) -> NoReturn:
    raise ArgumentError(
        text,
        expected=f"one size, or {spatial} sizes, none of them negative",
        got=f"output_size={output_size!r}",
        fix="pass one size for all dimensions",
    )


__all__ = [
    "check_adaptive",
    "check_elements",
    "check_padding",
    "check_places",
    "check_rank",
    "numbers",
]
