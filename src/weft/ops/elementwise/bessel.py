"""Bessel functions and Hurwitz' zeta function: their values in float64, and composite rows with their derivatives.

Not imported before the first use. Values are sums of Chebyshev polynomials on a near and a far interval; far from 0,
J and Y are an amplitude and a phase. Against mpmath they are within 2e-15 of themselves, J and Y beyond 8 of their
amplitude. Source: Abramowitz and Stegun, chapter 9 and 23.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.frontend.recorder import cast, record_gradient
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.tape import tape
from weft.ops.composite.own_derivatives import define_custom_vjp
from weft.ops.elementwise import bessel_coefficients as tables
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import where
from weft.ops.registry import OPS

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.frontend.tensor import Tensor


_TERMS = 20  # terms of Hurwitz' series before the asymptotic one
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _series(coefficients: tuple[float, ...], t: Tensor) -> Any:
    """c[0] + c[1] T1(t) + c[2] T2(t) + ..., by Clenshaw's recurrence."""
    double = t + t
    last: Any = 0.0
    total: Any = coefficients[-1]
    for coefficient in reversed(coefficients[1:-1]):
        last, total = total, double * total - last + coefficient
    return t * total - last + coefficients[0]


def _sign(x: Tensor) -> Any:
    return where(x < 0, -1.0, 1.0)


# -- I and K ---------------------------------------------------------------------------------------------------------


def _scaled_i(order: int, x: Tensor) -> Any:
    """exp(-|x|) I(x)."""
    size = call("abs", x)
    near = where(size > 8, 8.0, size)
    far = where(size > 8, size, 8.0)
    names = ("I0E_NEAR", "I0E_FAR") if order == 0 else ("I1E_NEAR", "I1E_FAR")
    inner = _series(getattr(tables, names[0]), near * 0.25 - 1)
    outer = _series(getattr(tables, names[1]), 16 / far - 1) / call("sqrt", far)
    inner = inner if order == 0 else inner * near
    if order == 0:
        inner = where(x == 0, 1.0, inner)
    value = where(size > 8, outer, inner) + x * 0 * where(call("isinf", x), 0, 1)
    return where(size == math.inf, 0.0, value) * (_sign(x) if order else 1.0)


def _i(order: int, x: Tensor) -> Any:
    value = _scaled_i(order, x) * call("exp", call("abs", x))
    return where(call("isinf", x), x if order else call("abs", x), value)


def _k(order: int, x: Tensor, scaled: bool) -> Any:
    """K(x), or exp(x) K(x); infinite at 0, nan below."""
    small = x <= 2
    near, far = where(small, x, 1.0), where(small, 2.0, x)
    half = call("log", where(near > 0, near, 1.0) * 0.5)
    t = near * near * 0.5 - 1
    if order == 0:
        inner = _series(tables.K0_NEAR, t) - half * _i(0, near)
        outer = _series(tables.K0E_FAR, 4 / far - 1)
    else:
        inner = _series(tables.K1_NEAR, t) / near + half * _i(1, near)
        outer = _series(tables.K1E_FAR, 4 / far - 1)
    outer = outer / call("sqrt", far)
    if scaled:
        inner = inner * call("exp", near)
    else:
        outer = outer * call("exp", -far)
    value = where(x == 0, math.inf, where(small, inner, outer))
    return where((x < 0) | call("isnan", x), math.nan, value)


# -- J and Y ---------------------------------------------------------------------------------------------------------


def _wave(order: int, x: Tensor) -> tuple[Any, Any]:
    """J(x) and Y(x) for x > 8: amplitudes P and Q of the cosine and sine of x - (2 order + 1) pi / 4."""
    inverse = 8 / x
    t = inverse * inverse * 2 - 1
    p = _series(tables.P1 if order else tables.P0, t)
    q = _series(tables.Q1 if order else tables.Q0, t) * inverse
    sine, cosine = call("sin", x), call("cos", x)
    both, gap = sine + cosine, sine - cosine  # without rounding of the phase
    turned = (gap, -both) if order else (both, gap)
    scale = call("rsqrt", x * math.pi)
    return (p * turned[0] - q * turned[1]) * scale, (p * turned[1] + q * turned[0]) * scale


def _near_j(order: int, x: Tensor) -> Any:
    value = _series(tables.J1_NEAR if order else tables.J0_NEAR, x * x / 32 - 1)
    return value * x if order else where(x == 0, 1.0, value)


def _j(order: int, x: Tensor) -> Any:
    size = call("abs", x)
    inner = _near_j(order, where(size > 8, 8.0, size))
    outer, _ = _wave(order, where(size > 8, size, 9.0))
    value = where(size == math.inf, 0.0, where(size > 8, outer, inner))
    value = where(call("isnan", x), math.nan, value)
    return value * _sign(x) if order else value


def _y(order: int, x: Tensor) -> Any:
    """Y(x); minus infinity at 0, nan below."""
    inside = (x > 0) & (x <= 8)
    near = where(inside, x, 1.0)
    half = call("log", near * 0.5)
    t = near * near / 32 - 1
    inner = _series(tables.Y1_NEAR if order else tables.Y0_NEAR, t)
    if order:
        inner = inner * near + (half * _near_j(1, near) - 1 / near) * (2 / math.pi)
    else:
        inner = inner + half * _near_j(0, near) * (2 / math.pi)
    _, outer = _wave(order, where(x > 8, x, 9.0))
    value = where(x == math.inf, 0.0, where(x > 8, outer, inner))
    return where((x < 0) | call("isnan", x), math.nan, where(x == 0, -math.inf, value))


# -- zeta ------------------------------------------------------------------------------------------------------------


def _zeta_and_slope(s: Tensor, q: Tensor) -> tuple[Any, Any]:
    """The sum of (q + k) ** -s over k >= 0, and its derivative by s: a number of terms, then Euler and Maclaurin's."""
    total: Any = 0.0
    slope: Any = 0.0
    for place in range(_TERMS):
        term = call("pow", q + float(place), -s)
        total, slope = total + term, slope - term * call("log", q + float(place))
    z = q + float(_TERMS)
    log, power, rest = call("log", z), call("pow", z, -s), 1 / (s - 1)
    integral, half = power * z * rest, power * 0.5
    total = total + integral + half
    slope = slope - integral * (log + rest) - half * log
    factor, power, inverses = s, power / z, 1 / s
    for j, bernoulli in enumerate(_BERNOULLI, 1):
        term = power * factor * (bernoulli / math.factorial(2 * j))
        total, slope = total + term, slope + term * (inverses - log)
        low, high = s + float(2 * j - 1), s + float(2 * j)
        factor, inverses = factor * low * high, inverses + 1 / low + 1 / high
        power = power / (z * z)
    return total, slope


def zeta_value(s: Tensor, q: Tensor) -> Any:
    """Hurwitz' zeta function in float64, for s > 1 and q > -11."""
    total, _ = _zeta_and_slope(s, q)
    z = q + float(_TERMS)
    total = where(call("isinf", s) & (q > 1), 0.0, where(q == math.inf, 0.0, total))
    whole = q == call("floor", q)
    left = where(whole, math.inf, where((s == call("floor", s)) & (z > 9), total, math.nan))
    total = where(s == 1, math.inf, where(s < 1, math.nan, where(q <= 0, left, total)))
    return where(call("isnan", s) | call("isnan", q), math.nan, total)


# -- rows ------------------------------------------------------------------------------------------------------------

VALUES: dict[str, Any] = {
    "i0": lambda x: _i(0, x),
    "i0e": lambda x: _scaled_i(0, x),
    "i1": lambda x: _i(1, x),
    "i1e": lambda x: _scaled_i(1, x),
    "bessel_j0": lambda x: _j(0, x),
    "bessel_j1": lambda x: _j(1, x),
    "bessel_y0": lambda x: _y(0, x),
    "bessel_y1": lambda x: _y(1, x),
    "modified_bessel_k0": lambda x: _k(0, x, False),
    "modified_bessel_k1": lambda x: _k(1, x, False),
    "scaled_modified_bessel_k0": lambda x: _k(0, x, True),
    "scaled_modified_bessel_k1": lambda x: _k(1, x, True),
}


def _untracked(value: Callable[..., Tensor], *operands: Tensor) -> Any:
    """A value computed in float64 and off the gradient's graph, in the type of the first operand."""
    mode = tape().mode
    grad, mode.grad = mode.grad, False
    try:
        return cast(value(*[cast(x, dtypes.float64) for x in operands]), operands[0]._dtype)
    finally:
        mode.grad = grad


def function_of(name: str, x: Tensor) -> Any:
    """One of VALUES with its gradient record, in the type of x."""
    result = _untracked(VALUES[name], x)
    return record_gradient(OPS[name], (x,), None, result)


def _over(value: Tensor, x: Tensor, at_zero: float) -> Any:
    """value / x, where value is an odd function; the limit at 0."""
    return where(x == 0, at_zero, value / where(x == 0, 1, x))


def _slope(name: str, x: Tensor) -> Any:
    """The derivative of one of VALUES."""
    f = function_of
    if name in ("i0", "bessel_j0", "bessel_y0", "modified_bessel_k0"):
        slope = f(name[:-1] + "1", x)
        return slope if name == "i0" else -slope
    if name == "i0e":
        return f("i1e", x) - call("sign", x) * f("i0e", x)
    if name == "i1e":
        value = f("i1e", x)
        return f("i0e", x) - call("sign", x) * value - _over(value, x, 0.5)
    if name == "scaled_modified_bessel_k0":
        return f(name, x) - f("scaled_modified_bessel_k1", x)
    if name == "scaled_modified_bessel_k1":
        value = f(name, x)
        return value - f("scaled_modified_bessel_k0", x) - value / x
    lower = f(name[:-1] + "0", x)
    if name == "modified_bessel_k1":
        return -lower - f(name, x) / x
    value = f(name, x)
    return lower - (_over(value, x, 0.5) if name in ("i1", "bessel_j1") else value / x)


_SCIPY = {"bessel_j0": "j0", "bessel_j1": "j1", "bessel_y0": "y0", "bessel_y1": "y1"}


def _scipy(name: str) -> Any:
    spelled = _SCIPY.get(
        name, name.replace("scaled_modified_bessel_", "").removeprefix("modified_bessel_")
    )
    spelled += "e" if name.startswith("scaled") else ""

    def reference(*arrays: Array, params: None) -> Any:
        import scipy.special

        return getattr(scipy.special, spelled)(*(np.asarray(a, np.float64) for a in arrays))

    return reference


def _define(name: str) -> None:
    prefix = "" if name == "i0" else "Special"
    words = "".join(part.capitalize() for part in name.split("_"))
    define_custom_vjp(
        name,
        "self",
        _scipy(name),
        {"self": lambda g, self: g * _slope(name, self)},
        lambda p, shapes, flags, n: p,
        [((3, 4), None)],
        "float" if name in ("i0", "i0e", "i1", "i1e") else "float32 float64",
        grad_name=f"{prefix}{words[:-1] + 'E' if words in ('I0e', 'I1e') else words}Backward0",
    )


for _name in VALUES:
    _define(_name)


def _slope_by_s(s: Tensor, q: Tensor) -> Any:
    _, slope = _zeta_and_slope(cast(s, dtypes.float64), cast(q, dtypes.float64))
    return cast(slope, s._dtype)


define_custom_vjp(
    "zeta",
    "self other",
    _scipy("zeta"),
    {
        "self": lambda g, self, other: g * _slope_by_s(self, other),
        "other": lambda g, self, other: -g * self * zeta(self + 1, other),
    },
    lambda p, shapes, flags, n: p,
    [((3, 4), (3, 4), None)],
    "float32 float64",
    grad_name="SpecialZetaBackward0",
)


def zeta(s: Tensor, q: Tensor) -> Any:
    """Hurwitz' zeta function of two tensors of one type and shape, with its gradient record."""
    return record_gradient(OPS["zeta"], (s, q), None, _untracked(zeta_value, s, q))
