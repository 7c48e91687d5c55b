# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Rows of analysis: erfinv, ndtri, sinc, lgamma, digamma and its derivatives.

The values of erfinv, lgamma, digamma and trigamma are functions of kernels; the others are composites, computed in
float64 from the rows of the table. Against correctly rounded values ndtri and polygamma are within 1e-14 of themselves;
sinc, lgamma and digamma within 1e-14 of themselves or of 1, whichever is more: they have zeros, near which only the
absolute error is small.
Sources: Winitzki 2008 (a first guess for the inverse of erf), Halley's method; Abramowitz and Stegun 6.4.7;
23.2.7 and Euler and Maclaurin's sum for Hurwitz' zeta function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft.engine.frontend.recorder import TO_FLOAT, cast
from weft.engine.ir import dtype as dtypes
from weft.ops.composite.own_derivatives import define_custom_vjp
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import where
from weft.ops.registry import define_elementwise

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.frontend.tensor import Tensor
    from weft.ops.registry import Rule


require(__name__, cython.compiled)

# -- the inverse of erf ----------------------------------------------------------------------------------------------

_WINITZKI = 0.147
_SLOPE = 2 / math.sqrt(math.pi)


def _inverse(value: Tensor, gap: Tensor) -> Any:
    """y >= 0 with erf(y) = value >= 0 and erfc(y) = gap: a guess, and three steps of Halley's method, on the side
    that has not lost its digits."""
    log = call("log", gap * (2 - gap))
    half = log * 0.5 + 2 / (math.pi * _WINITZKI)
    y = call("sqrt", call("sqrt", half * half - log / _WINITZKI) - half)
    for _ in range(3):
        wrong = where(value > 0.5, gap - call("erfc", y), call("erf", y) - value)
        step = wrong / (call("exp", -(y * y)) * _SLOPE)
        y = y - step / (y * step + 1)
    return y


def ndtri_value(p: Tensor) -> Any:
    """The inverse of the normal distribution function in float64, from the nearer end."""
    low = p < 0.5
    gap = where(low, p, 1 - p) * 2  # exact
    y = _inverse(1 - gap, gap) * math.sqrt(2)
    y = where(gap == 0, math.inf, where(gap < 0, math.nan, y))
    return where(low, -y, y) + p * 0


def _scipy(name: str) -> Any:
    def reference(x: Array, params: None) -> Any:
        import scipy.special

        wide = np.asarray(x, np.float64)
        if name == "trigamma":
            return np.where(wide == -np.inf, np.nan, scipy.special.polygamma(1, wide))
        return np.asarray(np.sinc(wide) if name == "sinc" else getattr(scipy.special, name)(wide))

    return reference


def _analytic(name: str, scipy_name: str, vjp: Rule, dtypes: str = "float") -> None:
    define_custom_vjp(
        name,
        "self",
        _scipy(scipy_name),
        {"self": vjp},
        lambda p, shapes, flags, n: p,
        [((3, 4), None)],
        dtypes,
    )


def _kernel(name: str, scipy_name: str, vjp: Rule, grad_name: str = "") -> None:
    """A row whose value is an elementary function of kernels."""
    reference = _scipy(scipy_name)
    domain = "unit" if name == "erfinv" else "positive"
    define_elementwise(
        name,
        "self",
        lambda x: reference(x, None),
        domain,
        {"self": vjp},
        TO_FLOAT,
        grad_name=grad_name,
        dtypes="float",
    )


_kernel(
    "erfinv",
    "erfinv",
    lambda g, result: g * (call("exp", call("square", result)) * (math.sqrt(math.pi) / 2)),
)
_analytic(
    "ndtri",
    "ndtri",
    lambda g, result: g * (call("exp", call("square", result) * 0.5) * math.sqrt(2 * math.pi)),
    "float32 float64",
)

# -- the cardinal sine -----------------------------------------------------------------------------------------------


def _turns(x: Tensor) -> tuple[Any, Any, Any]:
    """sin(pi x) and cos(pi x) by the nearest whole number, without rounding, and where x is 0."""
    whole = call("round", x)
    part = (x - whole) * math.pi
    odd = whole - call("floor", whole * 0.5) * 2
    sign = 1 - odd * 2
    return call("sin", part) * sign, call("cos", part) * sign, x == 0


def sinc_value(x: Tensor) -> Any:
    """sin(pi x) / (pi x) in float64; 1 at 0."""
    sine, _, zero = _turns(x)
    return where(zero, 1, sine / (where(zero, 1, x) * math.pi))


def _slope_of_sinc(x: Tensor) -> Any:
    """(cos(pi x) - sinc(x)) / x; its series near 0, where the two cancel."""
    _, cosine, _ = _turns(x)
    near = call("abs", x) < 1e-3
    series = x * (-(math.pi**2) / 3) * (1 - call("square", x) * (math.pi**2 / 10))
    return where(near, series, (cosine - sinc_value(x)) / where(near, 1, x))


# -- the gamma function ----------------------------------------------------------------------------------------------

# B(2j), the even Bernoulli numbers.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_SHIFT = 10  # the argument from which asymptotic series are used


def _whole_power(x: Tensor, exponent: int) -> Any:
    """x to a positive whole power, by squaring."""
    result: Any = None
    while exponent:
        if exponent & 1:
            result = x if result is None else result * x
        exponent >>= 1
        if exponent:
            x = x * x
    return result


def _zeta(s: int, x: Tensor) -> Any:
    """Hurwitz' zeta function for s > 1 and x > 0."""
    total: Any = 0.0
    for place in range(_SHIFT):
        total = total + _whole_power(1 / (x + float(place)), s)
    z = x + float(_SHIFT)
    tail = _whole_power(1 / z, s)
    total = total + _whole_power(1 / z, s - 1) / (s - 1.0) + tail * 0.5
    factor = float(s)
    tail = tail / z
    for j, bernoulli in enumerate(_BERNOULLI, 1):
        total = total + tail * (bernoulli / math.factorial(2 * j) * factor)
        factor *= (s + 2 * j - 1) * (s + 2 * j)
        tail = tail / (z * z)
    return total


def polygamma(order: int, x: Tensor) -> Any:
    """The derivative of `digamma` of an order above 0, in the type of x."""
    if order == 1:
        return call("trigamma", x)
    wide = cast(x, dtypes.float64)
    left = wide <= 0
    even = order % 2 == 0
    scale = float(math.factorial(order)) * (-1 if even else 1)
    value = _zeta(order + 1, where(left, 1 - wide, wide)) * scale
    part = where(left, wide - call("round", wide), 0.25) * math.pi
    slopes = _slopes_of_cotangent(order, call("cos", part) / call("sin", part))
    turned = (value if even else -value) - slopes * math.pi ** (order + 1)
    return cast(where(left, turned, value), x.dtype)


def _slopes_of_cotangent(order: int, cotangent: Tensor) -> Any:
    """The derivative of cot(x) of an order above 0, from cot(x): a polynomial in it, since cot' = -(1 + cot**2)."""
    coefficients = [0, 1]  # ascending, of the polynomial so far
    for _ in range(order):
        slope = [power * coefficients[power] for power in range(1, len(coefficients))]
        coefficients = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    squared = call("square", cotangent)
    total: Any = float(coefficients[-1])
    for coefficient in coefficients[-3::-2]:
        total = total * squared + float(coefficient)
    return total if order % 2 == 1 else total * cotangent


def _in_double(value: Callable[[Tensor], Tensor], g: Tensor, x: Tensor) -> Any:
    return g * cast(value(cast(x, dtypes.float64)), g.dtype)


_analytic("sinc", "sinc", lambda g, self: _in_double(_slope_of_sinc, g, self))
_kernel("lgamma", "gammaln", lambda g, self: g * call("digamma", self))
_kernel("digamma", "digamma", lambda g, self: g * call("trigamma", self))
_kernel("trigamma", "trigamma", lambda g, self: g * polygamma(2, self), "PolygammaBackward0")
