"""`make_tensor`: uniformly drawn tensors of any type for tests."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import weft
from weft._typing import DeviceLike, Shape
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError

if TYPE_CHECKING:
    from weft.tensor.layout import MemoryFormat


def _bounds(dtype: DType, low: float | None, high: float | None) -> tuple[Any, Any]:
    """The interval, by default [-9, 9) for floats and what a type has of [-9, 10) for integers, within the type's
    numbers. Errors: ArgumentError on one that is empty, or outside of them."""
    is_float = dtype.is_floating_point or dtype.is_complex
    usual = (
        (0, 2)
        if dtype is weft.bool
        else (-9, 9)
        if is_float
        else (0 if dtype is weft.uint8 else -9, 10)
    )
    low, high = usual[0] if low is None else low, usual[1] if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ArgumentError(
            f"`low` and `high` cannot be NaN, but got low={low!r} and high={high!r}",
            expected="numbers",
            got=f"low={low}, high={high}",
            fix="pass numbers",
        )
    if low > high or (low == high and not is_float):
        raise ArgumentError(
            f"`low` must be less than `high`, but got {low} >= {high}",
            expected="low < high",
            got=f"low={low}, high={high}",
            fix="use weft.full(shape, low) for one value",
        )
    if low == high:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated: use "
            "`torch.full` for one value",
            FutureWarning,
            stacklevel=3,
        )
    return _within(dtype, low, high)


def _within(dtype: DType, low: float, high: float) -> tuple[Any, Any]:
    """The part of [low, high) that a type has; of integers its whole numbers."""
    is_float = dtype.is_floating_point or dtype.is_complex
    info = None if dtype is weft.bool else (weft.finfo if is_float else weft.iinfo)(dtype)
    least, most = (0, 1) if info is None else (info.min, info.max)
    if low > most or (high < least if is_float else high <= least):
        raise ArgumentError(
            f"The interval [low, high) = [{low}, {high}) holds no number of {dtype.name}",
            expected=f"an interval that meets [{least}, {most}]",
            got=f"low={low}, high={high}",
            fix="choose other bounds",
        )
    if is_float:
        return max(low, least), min(high, most)
    return math.ceil(max(low, least)), math.ceil(min(high, most + 1))


def _drawn(shape: Shape, dtype: DType, low: float, high: float) -> Any:
    if dtype.is_complex:
        part = weft.float32 if dtype is weft.complex64 else weft.float64
        return weft.complex(_drawn(shape, part, low, high), _drawn(shape, part, low, high))
    if dtype.is_floating_point:
        return weft.empty(shape, dtype=dtype).uniform_(low, high)
    return weft.randint(int(low), int(min(high, weft.iinfo(weft.int64).max)), shape).to(dtype)


def make_tensor(
    *shape: int,
    dtype: DType,
    device: DeviceLike,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Any:
    """A tensor of numbers drawn uniformly from [low, high).

    Args:
        *shape: the shape.
        dtype: the dtype.
        device: the device.
        low: the least number; None: by the dtype, -9 for numbers with a sign.
        high: the bound above, which is not reached; None: by the dtype, 9 or 10.
        requires_grad: whether gradients are wanted. Default: False.
        noncontiguous: every other element of a larger one.
        exclude_zero: zeros become the smallest normal number, or 1.
        memory_format: the order of dimensions in memory; None: contiguous.

    Raises:
        ValueError on an interval without a number of the type, on `noncontiguous` with a
        memory format, and on `requires_grad` for integers.

    Example:
        >>> import weft
        >>> x = weft.testing.make_tensor((2, 3), dtype=weft.float32, device="cpu", low=0, high=1)
        >>> x.shape, bool(((x >= 0) & (x < 1)).all())
        (weft.Size([2, 3]), True)
    """
    _check_options(dtype, requires_grad, noncontiguous, memory_format)
    size = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    size = tuple(size)
    spaced = noncontiguous and weft.Size(size).numel() > 1
    wide = (*size[:-1], 2 * size[-1]) if spaced else size
    made = _drawn(wide, dtype, *_bounds(dtype, low, high)).to(device)
    if exclude_zero:
        is_float = dtype.is_floating_point or dtype.is_complex
        made = weft.where(made == 0, weft.finfo(dtype).tiny if is_float else 1, made).to(dtype)
    made = made[..., ::2] if spaced else made
    made = (
        made
        if memory_format in (None, weft.preserve_format)
        else made.contiguous(memory_format=memory_format)
    )
    return made.detach().requires_grad_(requires_grad)


def _check_options(
    dtype: DType, requires_grad: bool, noncontiguous: bool, memory_format: object
) -> None:
    if noncontiguous and memory_format is not None:
        raise ArgumentError(
            "`noncontiguous` and `memory_format` are mutually exclusive",
            expected="one of them",
            got=f"noncontiguous=True, memory_format={memory_format}",
            fix="leave one out",
        )
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ArgumentError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype!r}",
            expected="a floating point or complex dtype",
            got=dtype.name,
            fix="leave requires_grad out",
        )
