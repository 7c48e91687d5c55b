# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Parameters of random numbers: what dtypes and ranges can be drawn, probabilities, and whether they are legal."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft.engine.dispatch.type_names import no_kernel_for
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, ArgumentTypeError, UnsupportedDTypeError, class_name
from weft.functional.random.generator import Generator, chosen
from weft.functional.shape.views import expand
from weft.functional.support.value_bounds import need_within
from weft.tensor.arguments import Shape, as_dtype, describe

if TYPE_CHECKING:
    from weft._typing import DTypeLike, TensorLike
    from weft.engine.ir.dtype import DType

require(__name__, cython.compiled)


def floating(dtype: DTypeLike | None) -> Any:
    dtype = dtypes.get_default() if dtype is None else as_dtype(dtype)
    if not dtype.is_floating_point:
        raise UnsupportedDTypeError(
            no_kernel_for("uniform", dtype.name),
            expected="a floating-point dtype",
            got=dtype.name,
            fix="draw floats and convert, or use randint",
        )
    return dtype


def check_range(low: int, high: int) -> None:
    if low >= high:
        raise ArgumentError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}",
            expected="low < high",
            got=f"low={low}, high={high}",
            fix="swap them",
        )


def check_fits(low: int, high: int, dtype: DType) -> None:
    """Errors: RuntimeError where an integer type does not hold the first or the last number of [low, high)."""
    if dtype.category > 1:
        return
    first = least(dtype)
    for name, value in (("from", low), ("to - 1", high - 1)):
        if not first <= value < span(dtype):
            raise ArgumentError(
                f"{name} is out of bounds for {dtype.name}",
                expected=f"numbers from {first} to {span(dtype) - 1}",
                got=f"low={low}, high={high}",
                fix="choose a wider dtype",
            )


@cache
def least(dtype: DType) -> int:
    """The least number of a type of integers or truth values."""
    return 0 if dtype.category == 0 else int(np.iinfo(dtype.numpy).min)


@cache
def span(dtype: DType) -> int:
    """The count of numbers from 0 on that a dtype has without a gap."""
    if dtype.category == 2:
        return int(2 ** {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[dtype.name])
    return 2 if dtype.category == 0 else int(np.iinfo(dtype.numpy).max) + 1


def real_number(function: str, value: object, argument: str) -> float:
    """A real number, checked before any random number is drawn. Errors: ArgumentTypeError."""
    if isinstance(value, (int, float, np.integer, np.floating)):
        return value  # type: ignore[return-value]
    if isinstance(value, Tensor) and not (
        value._shape or value._dtype.is_complex or value.requires_grad  # no gradient would reach it
    ):
        return value.item()
    raise ArgumentTypeError(
        f"{function}(): argument '{argument}' must be float, not {class_name(value)}",
        expected="a number",
        got=describe(argument, value) if isinstance(value, Tensor) else repr(value),
        fix="pass one number for all elements",
    )


def coins(shape: Shape, p: TensorLike, generator: Generator | None) -> Any:
    if isinstance(p, Tensor):
        p = expand(need_within("bernoulli", "p", p), shape)
    elif not 0 <= real_number("bernoulli", p, "p") <= 1:
        raise ArgumentError(
            f"bernoulli_ expects p to be in [0, 1], but got p={p}",
            expected="0 <= p <= 1",
            got=str(p),
            fix="pass a probability",
        )
    bits = cast(chosen(generator).bits(shape), dtypes.float64)
    limit = cast(p.detach(), dtypes.float64) * 2.0**32 if isinstance(p, Tensor) else p * 2.0**32
    return bits < limit
