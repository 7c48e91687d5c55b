# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Random numbers as the value of a tensor: `uniform_`, `normal_`, `bernoulli_`, `random_`, `exponential_`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import cython

from weft._build.compiled import require
from weft.engine.dispatch.type_names import TYPE_NAMES
from weft.engine.frontend.inplace import in_place, mutate
from weft.engine.frontend.meta import is_on_meta
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, ArgumentTypeError, DTypeError
from weft.functional.random.generator import Generator, integers, standard_normal, unit
from weft.functional.random.parameters import (
    check_fits,
    check_range,
    coins,
    floating,
    real_number,
    span,
)
from weft.functional.support.variants import by_name
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import without_memory
from weft.tensor.arguments import Shape

if TYPE_CHECKING:
    from weft._typing import TensorLike
    from weft.engine.ir.dtype import DType

require(__name__, cython.compiled)


def _numbers(
    law: Callable[..., Tensor],
    input: Tensor,
    generator: Generator | None,
    scale: float,
    shift: float,
) -> Any:
    """Numbers of a law, scaled and shifted, in the type of a tensor: complex ones in both parts."""
    dtype = input._dtype
    if is_on_meta(input):
        return without_memory(input._shape, dtype)
    if not dtype.is_complex:
        return _moved(law, input._shape, floating(dtype), generator, scale, shift)
    draws = [_moved(law, input._shape, dtype.to_real(), generator, scale, shift) for _ in range(2)]
    return call("complex", *draws)


def _moved(
    law: Callable[..., Tensor],
    shape: Shape,
    dtype: DType,
    generator: Generator | None,
    scale: float,
    shift: float,
) -> Any:
    """Numbers of a law times `scale`, plus `shift`; adding 0 would change a normal number, -0.0."""
    draw = law(shape, dtype, generator)
    scaled = draw if scale == 1 else draw * scale
    return scaled if shift == 0 and law is unit else scaled + shift


def _fill(input: Tensor, draw: Callable[[], Tensor]) -> Any:
    """Numbers as the value of a tensor, converted to its type; none are drawn for the device meta."""
    absent = is_on_meta(input)
    drawn = without_memory(input._shape, input._dtype) if absent else cast(draw(), input._dtype)
    return mutate(input, drawn)


def _start(function: str, keywords: Mapping[str, float], positional: float | None) -> Any:
    """The argument `from`, which Python can name in no signature. Errors: ArgumentTypeError on other keywords."""
    unknown = next((key for key in keywords if key != "from"), None)
    if unknown is not None:
        raise ArgumentTypeError(
            f"{function}() got an unexpected keyword argument '{unknown}'",
            expected="from, to and generator",
            got=f"{unknown}={keywords[unknown]!r}",
            fix="leave it away",
        )
    return keywords.get("from", positional)


def uniform_(
    input: Tensor,
    from_: float = 0.0,
    to: float = 1.0,
    *,
    generator: Generator | None = None,
    **keywords: float,
) -> Any:
    """Uniform numbers in [from, to), in place."""
    low = real_number("uniform_", _start("uniform_", keywords, from_), "from")
    to = real_number("uniform_", to, "to")
    if low > to:
        raise ArgumentError(
            f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}",
            expected="from <= to",
            got=f"from={low}, to={to}",
            fix="swap them",
        )
    return in_place(input, _numbers(unit, input, generator, to - low, low))


def normal_(
    input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Any:
    """Normal numbers, in place."""
    mean, std = real_number("normal_", mean, "mean"), real_number("normal_", std, "std")
    if std < 0:
        raise ArgumentError(
            f"normal expects std >= 0.0, but found std {std}",
            expected="std >= 0",
            got=str(std),
            fix="pass a positive number",
        )
    scale = std * math.sqrt(0.5) if input._dtype.is_complex else std
    return in_place(input, _numbers(standard_normal, input, generator, scale, mean))


def bernoulli_(input: Tensor, p: TensorLike = 0.5, *, generator: Generator | None = None) -> Any:
    """1 with probability p (a number or a tensor), else 0, in place."""
    return _fill(input, lambda: coins(input._shape, p, generator))


def random_(
    input: Tensor,
    from_: int | None = None,
    to: int | None = None,
    *,
    generator: Generator | None = None,
    **keywords: int,
) -> Any:
    """Integers in [from, to), in place; random_(to) starts at 0, random_() spans the type."""
    low = _start("random_", keywords, from_)
    if to is None:
        low, to = 0, span(input._dtype) if low is None else low
    low = 0 if low is None else low
    check_range(low, to)
    check_fits(low, to, input._dtype)
    return _fill(input, lambda: integers(low, to, input._shape, generator))


def exponential_(input: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Exponential numbers of rate lambd, in place. Errors: RuntimeError on integers."""
    if not input._dtype.is_floating_point:
        raise DTypeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a floating point but "
            f"you specified {TYPE_NAMES[input._dtype.name]}",
            expected="a floating-point tensor",
            got=input._dtype.name,
            fix="convert with .float()",
        )
    lambd = real_number("exponential_", lambd, "lambd")
    if not lambd > 0:
        raise ArgumentError(
            f"exponential_ expects lambda > 0.0, but found lambda={lambd}",
            expected="lambd > 0",
            got=str(lambd),
            fix="pass a positive rate",
        )
    wide = dtypes.float64 if input._dtype is dtypes.float64 else dtypes.float32
    return _fill(
        input, lambda: call("log", 1 - unit(input._shape, wide, generator)) * (-1.0 / lambd)
    )


METHODS = by_name(uniform_, normal_, bernoulli_, random_, exponential_)
