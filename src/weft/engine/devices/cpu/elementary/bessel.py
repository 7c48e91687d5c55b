"""Bessel functions of orders 0 and 1, in float64 for both widths.

Values are sums of Chebyshev polynomials on a near and a far interval; far from 0, J and Y are an amplitude and a phase.
An interval that no lane is in is skipped. Against mpmath float64 is within 2e-15 of itself, J and Y beyond 8 of their
amplitude; for float32 the series end sooner. Source: Abramowitz and Stegun, chapter 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

from weft.engine.devices.cpu.elementary import bessel_coefficients as tables
from weft.engine.devices.cpu.elementary.exponential import exp
from weft.engine.devices.cpu.elementary.expressions import SimdExpr, fma
from weft.engine.devices.cpu.elementary.functions import InDouble, called, either
from weft.engine.devices.cpu.elementary.logarithm import log
from weft.engine.devices.cpu.elementary.trigonometric import cos, sin

LEAST_32 = 2.0**-36  # of the largest coefficient, below which float32 has no need of one
_FAR = 8.0  # where the second interval of I, J and Y begins
_INFINITY = math.inf


@cache
def _coefficients(name: str, single: bool) -> tuple[float, ...]:
    """A table as far as its terms count."""
    table: tuple[float, ...] = getattr(tables, name)
    least = max(map(abs, table)) * LEAST_32 if single else 0.0
    count = max(place for place, c in enumerate(table) if abs(c) > least) + 1
    return table[:count]


def _series(name: str, t: SimdExpr, single: bool) -> SimdExpr:
    """c[0] + c[1] T1(t) + c[2] T2(t) + ..., by Clenshaw's recurrence."""
    table = _coefficients(name, single)
    double = t + t
    last: SimdExpr = t.like(0.0)
    total: SimdExpr = t.like(table[-1])
    for coefficient in reversed(table[1:-1]):
        last, total = total, fma(double, total, coefficient - last)
    return fma(t, total, table[0] - last)


# -- I and K ---------------------------------------------------------------------------------------------------------


def _scaled_i(order: int, x: SimdExpr, single: bool) -> SimdExpr:
    """exp(-|x|) I(x)."""
    size = x.magnitude()

    def inner() -> SimdExpr:
        near = size.at_most(_FAR)
        series = _series(f"I{order}E_NEAR", near * 0.25 - 1.0, single)
        return series * near if order else x.equals(0.0).where(1.0, series)

    def outer() -> SimdExpr:
        far = size.at_least(_FAR)
        return _series(f"I{order}E_FAR", 16.0 / far - 1.0, single) / far.square_root()

    value = either(size > _FAR, outer, inner)
    value = size.equals(_INFINITY).where(0.0, x.is_nan().where(x, value))
    return (x < 0.0).where(-value, value) if order else value


def _i(order: int, x: SimdExpr, single: bool) -> SimdExpr:
    size = x.magnitude()
    value = _scaled_i(order, x, single) * exp(size)
    return size.equals(_INFINITY).where(x if order else size, value)


def _k(order: int, scaled: bool, x: SimdExpr, single: bool) -> SimdExpr:
    """K(x), or exp(x) K(x); infinite at 0, nan below."""
    small = x <= 2.0
    near, far = small.where(x, 1.0), small.where(2.0, x)

    def inner() -> SimdExpr:
        half = log((near > 0.0).where(near, 1.0)) - math.log(2)
        series = _series(f"K{order}_NEAR", near * near * 0.5 - 1.0, single)
        product = half * _i(order, near, single)
        value = series / near + product if order else series - product
        return value * exp(near) if scaled else value

    def outer() -> SimdExpr:
        value = _series(f"K{order}E_FAR", 4.0 / far - 1.0, single) / far.square_root()
        return value if scaled else value * exp(-far)

    value = x.equals(0.0).where(_INFINITY, either(small, inner, outer))
    return _nan_below_zero(x, value)


def _nan_below_zero(x: SimdExpr, value: SimdExpr) -> SimdExpr:
    return (x >= 0.0).where(value, math.nan)


# -- J and Y ---------------------------------------------------------------------------------------------------------


def _wave(order: int, second: bool, x: SimdExpr, single: bool) -> SimdExpr:
    """J(x), or Y(x), for x > 8: amplitudes P and Q of the cosine and sine of x - (2 order + 1) pi / 4."""
    inverse = 8.0 / x
    t = inverse * inverse * 2.0 - 1.0
    p = _series(f"P{order}", t, single)
    q = _series(f"Q{order}", t, single) * inverse
    sine, cosine = sin(x), cos(x)
    both, gap = sine + cosine, sine - cosine  # without rounding of the phase
    first, other = (gap, -both) if order else (both, gap)
    scale = (x * math.pi).square_root()
    return (p * other + q * first if second else p * first - q * other) / scale


def _near_j(order: int, x: SimdExpr, single: bool) -> SimdExpr:
    value = _series(f"J{order}_NEAR", x * x * 0.03125 - 1.0, single)
    return value * x if order else x.equals(0.0).where(1.0, value)


def _j(order: int, x: SimdExpr, single: bool) -> SimdExpr:
    size = x.magnitude()
    value = either(
        size > _FAR,
        lambda: _wave(order, False, (size > _FAR).where(size, _FAR + 1), single),
        lambda: _near_j(order, size.at_most(_FAR), single),
    )
    value = size.equals(_INFINITY).where(0.0, x.is_nan().where(x, value))
    return (x < 0.0).where(-value, value) if order else value


def _y(order: int, x: SimdExpr, single: bool) -> SimdExpr:
    """Y(x); minus infinity at 0, nan below."""
    far = x > _FAR

    def inner() -> SimdExpr:
        near = (x > 0.0).where(far.where(1.0, x), 1.0)
        half = log(near) - math.log(2)
        series = _series(f"Y{order}_NEAR", near * near * 0.03125 - 1.0, single)
        product = half * _near_j(order, near, single)
        if order:
            return series * near + (product - 1.0 / near) * (2 / math.pi)
        return series + product * (2 / math.pi)

    value = either(far, lambda: _wave(order, True, far.where(x, _FAR + 1), single), inner)
    value = x.equals(_INFINITY).where(0.0, value)
    return _nan_below_zero(x, x.equals(0.0).where(-_INFINITY, value))


VALUES: dict[str, InDouble] = {
    "i0": partial(_i, 0),
    "i0e": partial(_scaled_i, 0),
    "i1": partial(_i, 1),
    "i1e": partial(_scaled_i, 1),
    "bessel_j0": partial(_j, 0),
    "bessel_j1": partial(_j, 1),
    "bessel_y0": partial(_y, 0),
    "bessel_y1": partial(_y, 1),
    "modified_bessel_k0": partial(_k, 0, False),
    "modified_bessel_k1": partial(_k, 1, False),
    "scaled_modified_bessel_k0": partial(_k, 0, True),
    "scaled_modified_bessel_k1": partial(_k, 1, True),
}


def function(name: str) -> Callable[[SimdExpr], SimdExpr]:
    """One of VALUES, for both widths."""
    return lambda x: called(name, x, VALUES[name])
