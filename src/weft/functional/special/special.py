# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Functions of analysis, element by element: logarithms of sums, signs and exponents of numbers, and `weft.special`.

Tensors come in; what goes out is composed of rows. digamma and polygamma are computed in float64, whatever the type;
their derivatives are rows' own (`weft.ops.elementwise.special_functions`); how exact they are stands there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cython

from weft._build.compiled import require
from weft._typing import TensorLike
from weft.engine.api.call_cache import composed_of_primitives
from weft.engine.frontend.recorder import cast, record_gradient
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentTypeError, DTypeError, UnsupportedDTypeError, class_name
from weft.functional.elementwise.unary import FUNCTIONS as ELEMENTARY
from weft.functional.reductions.softmax import log_softmax, softmax
from weft.functional.reductions.sums_and_extrema import logsumexp
from weft.functional.special.operands import floating, floats
from weft.functional.support.return_types import TYPES
from weft.functional.support.variants import by_name, give_all, in_place_variants, named, write_out
from weft.ops import OPS
from weft.ops.elementwise import special_functions
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import expand, full, where
from weft.tensor.arguments import (
    describe,
    need_floating,
    need_integer,
    need_tensor,
    untracked,
    widen,
)

require(__name__, cython.compiled)


# -- two operands --------------------------------------------------------------------------------------------------


@composed_of_primitives
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Any:
    """log(exp(input) + exp(other)) without overflow. Errors: DTypeError on integers."""
    _need_both("logaddexp", input, other)
    if input._dtype.is_complex or other._dtype.is_complex:
        result = _complex_logaddexp(input, other)
    else:
        _need_floating_one("logaddexp", input, other)
        result = call("logaddexp", *floats("logaddexp", input, other))
    return result if out is None else write_out(out, result)


@composed_of_primitives
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Any:
    """log2(2**input + 2**other) without overflow. Errors: DTypeError on integers."""
    _need_both("logaddexp2", input, other)
    _need_floating_one("logaddexp2", input, other)
    result = _log_sum(*floats("logaddexp2", input, other))
    return result if out is None else write_out(out, result)


def _log_sum(input: Tensor, other: Tensor) -> Any:
    """log2(2**input + 2**other), from the greater: all derivatives are right at ties."""
    greater = input >= other
    top, low = where(greater, input, other), where(greater, other, input)
    same = (input == other) & call("isinf", top)
    gap = where(same, 0, low - top)
    rest = call("log1p", call("exp", gap * math.log(2)))
    return where(same, input, top + rest / math.log(2))


def _need_floating_one(name: str, input: Tensor, other: Tensor) -> None:
    """Errors: UnsupportedDTypeError where neither operand has floats."""
    if input._dtype.category < 2 and other._dtype.category < 2:
        need_floating(f"{name}_cpu", input)


def _need_both(name: str, input: Tensor, other: object) -> None:
    """Errors: ArgumentTypeError where an operand is no tensor."""
    need_tensor(name, input)
    need_tensor(name, other, "other", 2)


def _real(x: object) -> Any:
    return call("real", x) if isinstance(x, Tensor) and x._dtype.is_complex else x


def _complex_logaddexp(a: object, b: object) -> Any:
    """As `logaddexp`, from the operand of the greater real part."""
    greater = _real(a) >= _real(b)
    top, low = where(greater, a, b), where(greater, b, a)
    same = (a == b) & call("isinf", _real(top))
    gap = where(same, 0, low - top)
    return where(same, a, top + call("log1p", call("exp", gap)))


@composed_of_primitives
def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Any:
    """sqrt(input ** 2 + other ** 2), without overflow on the way."""
    _need_both("hypot", input, other)
    if input._dtype.category < 2 and other._dtype.category < 2:
        need_floating("hypot_cpu", input)
    input, other = floats("hypot", input, other)
    dtype = input._dtype
    x, y = widen(input), widen(other)
    with untracked():
        size = call("abs", call("complex", x, y))
    shape = size._shape
    result = record_gradient(OPS["hypot"], (expand(x, shape), expand(y, shape)), None, size)
    result = cast(result, dtype)
    return result if out is None else write_out(out, result)


def _times_log(name: str, log: str, pole: int, input: Any, other: Any) -> Any:
    """input * log(other), 0 where input is 0 and other is not nan; its derivative by input is log(other) there too."""
    if not isinstance(input, Tensor):
        need_tensor(name, other, "other", 2)
    input, other = floats(name, input, other)
    if not isinstance(other, Tensor):
        other = full((), other, input._dtype)
    nothing = input == 0
    beyond = nothing & (
        (other < pole) | (other == math.inf)
    )  # 0 * log(other) is nan, or derivatives are
    product = input * call(log, where(beyond, pole + 1, other))
    return where(nothing & (other == pole), 0, product) + 0.0  # 0 * log(0.5) is -0.0


@composed_of_primitives
def xlogy(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Any:
    """input * log(other), 0 where input is 0 and other no nan."""
    result = _times_log("xlogy", "log", 0, input, other)
    return result if out is None else write_out(out, result)


@composed_of_primitives
def xlog1py(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Any:
    """input * log(1 + other), 0 where input is 0 and other no nan."""
    result = _times_log("xlog1py", "log1p", -1, input, other)
    return result if out is None else write_out(out, result)


@composed_of_primitives
def copysign(input: Tensor, other: Any, *, out: Tensor | None = None) -> Any:
    """The size of input with the sign of other (-0.0 and nan with their signs)."""
    need_tensor("copysign", input)
    input, other = floats("copysign", input, other)
    if not isinstance(other, Tensor):
        other = full((), float(other), dtypes.float64)
    negative = signbit(other)
    size = call("abs", input)
    result = where(negative, -size, size)
    if other.requires_grad:  # by the sign it is zero
        result = result + where(False, other, 0)
    return result if out is None else write_out(out, result)


def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Any:
    """0 below 0, 1 above, `values` at 0. A backward through it raises. Errors: DTypeError where the types differ."""
    need_tensor("heaviside", input)
    need_tensor("heaviside", values, "values", 2)
    mixed = input._dtype.is_complex or values._dtype.is_complex
    if mixed or input._dtype is not values._dtype:
        raise DTypeError(
            f"heaviside is not yet implemented for {'complex tensors' if mixed else 'tensors with different dtypes'}.",
            expected="two real tensors of one type",
            got=f"{describe('input', input)}, {describe('values', values)}",
            fix="convert one with .to(other.dtype)",
        )
    with untracked():
        result = where(input == 0, values, cast(input > 0, input._dtype))
    if input.requires_grad or values.requires_grad:
        from weft.functional.support.not_differentiable import underived

        result = underived("aten::heaviside", result, input, values)
    return result if out is None else write_out(out, result)


def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Any:
    """input * 2 ** other."""
    need_tensor("ldexp", input)
    need_tensor("ldexp", other, "other", 2)
    floats = input._dtype.category > 1
    if input._dtype.category == 2 and other._dtype.category == 0:
        need_floating("ldexp_cpu_exp", other)
    if other._dtype.category < 2:
        other = cast(other, input._dtype if floats else dtypes.get_default())
    result = input * call("exp2", other)
    return result if out is None else write_out(out, result)


def frexp(input: Tensor, *, out: Tensor | None = None) -> Any:
    """Mantissa and exponent: input = mantissa * 2 ** exponent, with the mantissa's size in [0.5, 1).

    Shapes: both as `input`; the exponent is int32, 0 for 0, infinities and nan. Errors: DTypeError on
    other than floats.
    """
    if need_tensor("frexp", input)._dtype.category != 2:
        raise DTypeError(
            "weft.frexp() only supports floating-point dtypes",
            expected="a floating-point tensor",
            got=describe("input", input),
            fix="convert with .float() first",
        )
    result = TYPES["frexp"]((call("mantissa", input), call("exponent", input)))
    if out is not None:
        if not isinstance(out, tuple | list) or len(out) != 2:
            raise ArgumentTypeError(
                f"frexp(): argument 'out' must be tuple of Tensors, not {class_name(out)}",
                expected="two tensors, for mantissa and exponent",
                got=f"{out!r:.100}",
                fix="pass out=(mantissa, exponent)",
            )
        return give_all(out, result)
    return result


# -- one operand ---------------------------------------------------------------------------------------------------


def signbit(input: Tensor, *, out: Tensor | None = None) -> Any:
    """True where an element is negative; -0.0 is, and a nan whose sign is set."""
    if need_tensor("signbit", input)._dtype.is_complex:
        raise UnsupportedDTypeError(
            "signbit is not implemented for complex tensors.",
            expected="a real tensor",
            got=describe("input", input),
            fix="take .real or .imag",
        )
    with untracked():
        if input._dtype.category == 0:
            result = full(input._shape, False, dtypes.bool_)
        elif input._dtype.category == 1:
            result = input < 0
        else:
            result = call(f"{input._dtype.name}_bits", input) < 0
    return result if out is None else write_out(out, result)


def _composed(name: str, value: Callable[[Tensor], Tensor], text: str) -> Any:
    """A function with a gradient record of its own, computed in float64."""
    op = OPS[name]

    def function(input: Tensor, *, out: Tensor | None = None) -> Any:
        x = floating(name, input)
        with untracked():
            result = cast(value(cast(x, dtypes.float64)), x._dtype)
        result = record_gradient(op, (x,), None, result)
        return result if out is None else write_out(out, result)

    return composed_of_primitives(named(function, name, f"{text} Shapes: as `input`."))


def _kernel(name: str, text: str) -> Any:
    """A function that is an elementwise row."""

    def function(input: Tensor, *, out: Tensor | None = None) -> Any:
        result = call(name, floating(name, input))
        return result if out is None else write_out(out, result)

    return named(function, name, f"{text} Shapes: as `input`.")


erfinv = _kernel("erfinv", "The inverse of erf on [-1, 1], nan elsewhere.")
lgamma = _kernel("lgamma", "The logarithm of |gamma| of each element.")
digamma = _kernel("digamma", "The derivative of lgamma.")


@composed_of_primitives
def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Any:
    """The n-th derivative of digamma."""
    order = need_integer("polygamma", n, "n", 0, 170)
    x = floating("polygamma", input)
    if order == 0:
        return digamma(x, out=out)
    result = special_functions.polygamma(order, x)
    return result if out is None else write_out(out, result)


def _method_polygamma(self: Tensor, n: object) -> Any:
    """The n-th derivative of digamma."""
    return polygamma(n, self)


@composed_of_primitives
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Any:
    """The logarithm of the multivariate gamma function of dimension p."""
    p = need_integer("mvlgamma", p, "p", 1, 1000)
    x = floating("mvlgamma", input)
    result = lgamma(x) + p * (p - 1) / 4 * math.log(math.pi)
    for place in range(1, p):
        result = result + lgamma(x - place / 2)
    return result if out is None else write_out(out, result)


_real_sinc = _composed("sinc", special_functions.sinc_value, "")


@composed_of_primitives
def sinc(input: Tensor, *, out: Tensor | None = None) -> Any:
    """sin(pi x) / (pi x), and 1 at 0."""
    if need_tensor("sinc", input)._dtype.is_complex:
        turned = input * math.pi
        result = where(input == 0, 1, call("sin", turned) / where(input == 0, 1, turned))
    else:
        result = _real_sinc(input)
    return result if out is None else write_out(out, result)


@composed_of_primitives
def entr(input: Tensor, *, out: Tensor | None = None) -> Any:
    """-x log x; 0 at 0, -inf below."""
    x = floating("special_entr", input)
    inside = x > 0
    safe = where(inside, x, 1)
    below = full((), -math.inf, x._dtype)
    outside = where(x == 0, 0.0, where(call("isnan", x), math.nan, below))
    result = where(inside, -safe * call("log", safe), outside)
    return result if out is None else write_out(out, result)


@composed_of_primitives
def ndtr(input: Tensor, *, out: Tensor | None = None) -> Any:
    """The distribution function of the standard normal distribution, computed in float64."""
    x = floating("special_ndtr", input)
    result = cast(call("erfc", cast(x, dtypes.float64) * -math.sqrt(0.5)) * 0.5, x._dtype)
    return result if out is None else write_out(out, result)


@composed_of_primitives
def ndtri(input: Tensor, *, out: Tensor | None = None) -> Any:
    """The inverse of `ndtr`: 0 gives -inf, 1 gives inf."""
    need_tensor("special_ndtri", input)
    x = floating("special_ndtri", input, halves=False)
    with untracked():
        result = cast(special_functions.ndtri_value(cast(x, dtypes.float64)), x._dtype)
    result = record_gradient(OPS["ndtri"], (x,), None, result)
    return result if out is None else write_out(out, result)


@composed_of_primitives
def i0(input: Tensor, *, out: Tensor | None = None) -> Any:
    """The modified Bessel function of the first kind of order 0. Shapes: as `input`."""
    from weft.functional.special import bessel

    result: Any = bessel.FUNCTIONS["i0"](input, out=out)
    return result


def special_round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Any:
    """As `weft.round`."""
    return ELEMENTARY["round"](input, decimals=decimals, out=out)


FUNCTIONS: dict[str, Any] = by_name(
    logaddexp, logaddexp2, hypot, xlogy, copysign, heaviside, ldexp, frexp, signbit, erfinv, lgamma, digamma, polygamma,
    mvlgamma, sinc, i0,
)  # fmt: skip
METHODS: dict[str, Any] = {**FUNCTIONS, "polygamma": _method_polygamma}
METHODS.update(
    in_place_variants(
        FUNCTIONS, "hypot xlogy copysign heaviside ldexp erfinv lgamma digamma sinc i0"
    )
)
SPECIAL: dict[str, Any] = {
    **by_name(
        digamma,
        entr,
        erfinv,
        log_softmax,
        logsumexp,
        ndtr,
        ndtri,
        polygamma,
        sinc,
        softmax,
        xlog1py,
        xlogy,
    ),
    **{
        name: ELEMENTARY[name]
        for name in ["erf", "erfc", "exp2", "expit", "expm1", "log1p", "logit"]
    },
    "gammaln": lgamma,
    "multigammaln": mvlgamma,
    "psi": digamma,
    "round": special_round,
}
