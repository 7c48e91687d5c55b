"""The logarithm of |gamma| and its derivatives in float64.

The first by Lanczos' series (1964) with the coefficients of Godfrey for g = 7, n = 9: a sum of fractions, which is one
of two polynomials here, whose coefficients are all positive. Its derivatives, digamma and trigamma, by asymptotic
series at x + 10 (Abramowitz and Stegun 6.3.18, 6.4.12), less the ten fractions in between (6.3.6), which are one of
polynomials, too.
"""

from __future__ import annotations

import math

from weft.engine.devices.cpu.elementary.expressions import SimdExpr, horner, intrinsic
from weft.engine.devices.cpu.elementary.functions import called, either
from weft.engine.devices.cpu.elementary.logarithm import log
from weft.engine.devices.cpu.elementary.trigonometric import sin, tan

_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
TINY = 2.0**-60  # gamma(x) is 1 / x below this
_MOST = 1e30  # the series is its first term from here on, where powers of x would overflow


def _product(roots: list[int]) -> list[int]:
    """The coefficients of the product of (x + root), lowest power first."""
    found = [1]
    for root in roots:
        pairs = zip([*found, 0], [0, *found], strict=True)
        found = [low * root + high for low, high in pairs]
    return found


def _joined() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The polynomials above and below the line, computed exactly: the weights are whole multiples of 1 / scale."""
    ratios = [weight.as_integer_ratio() for weight in _LANCZOS]
    scale = max(below for _, below in ratios)  # powers of two
    first, *weights = [above * (scale // below) for above, below in ratios]
    places = list(range(len(weights)))
    line = _product(places)
    total = [first * c for c in line]
    for place, weight in zip(places, weights, strict=True):
        for power, c in enumerate(_product([p for p in places if p != place])):
            total[power] += weight * c
    return tuple(c / scale for c in total), tuple(map(float, line))


_ABOVE, _BELOW = _joined()


def _log_gamma(x: SimdExpr) -> SimdExpr:
    """log gamma(x) for x >= 0.5."""
    bounded = x.at_most(_MOST)
    total = horner(bounded, _ABOVE) / horner(bounded, _BELOW)
    turned = log(x + 6.5) - 1.0
    return (x - 0.5) * turned + (log(total) + (_HALF_LOG_TWO_PI - 7.0))


def _from_whole(x: SimdExpr) -> SimdExpr:
    """x less the nearest whole number, exactly."""
    return x - SimdExpr(x.builder, intrinsic(x.builder, "roundeven", x.type, x.value))


def lgamma(x: SimdExpr) -> SimdExpr:
    """log |gamma(x)|, by reflection below 0.5."""
    left = x < 0.5
    value = _log_gamma(left.where(1.0 - x, x))
    part = _from_whole(x)
    sine = sin(part * math.pi).magnitude()
    value = left.where(math.log(math.pi) - log(sine) - value, value)
    size = x.magnitude()
    value = (size < TINY).where(-log(size), value)
    return size.equals(float("inf")).where(x.like(float("inf")), value)


# -- digamma ---------------------------------------------------------------------------------------------------------

_SHIFT = 10
# B(2j) / 2j of the even Bernoulli numbers.
_ASYMPTOTIC = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
_STEPS = _product(list(range(_SHIFT)))
_STEPS_BELOW = tuple(map(float, _STEPS))
_STEPS_ABOVE = tuple(float(power * c) for power, c in enumerate(_STEPS))[1:]  # the derivative


def _digamma_right(x: SimdExpr) -> SimdExpr:
    """digamma(x) for x >= 0."""
    bounded = x.at_most(_MOST)
    steps = horner(bounded, _STEPS_ABOVE) / horner(bounded, _STEPS_BELOW)
    z = x + float(_SHIFT)
    inverse = 1.0 / z
    square = inverse * inverse
    return log(z) - 0.5 * inverse - square * horner(square, _ASYMPTOTIC) - steps


def _digamma(x: SimdExpr) -> SimdExpr:
    """By reflection below 0; nan at negative integers, and at 0 infinite on the side of its sign."""
    left = x < 0.0

    def reflected() -> SimdExpr:
        part = _from_whole(x)
        value = _digamma_right(left.where(1.0 - x, 1.0)) - math.pi / tan(part * math.pi)
        return part.equals(0.0).where(math.nan, value)

    value = either(left, reflected, lambda: _digamma_right(left.where(1.0, x)))
    value = x.equals(0.0).where(-1.0 / x, value)
    return x.equals(math.inf).where(x, value)


def digamma(x: SimdExpr) -> SimdExpr:
    """The derivative of `lgamma`."""
    return called("digamma", x, lambda x, single: _digamma(x))


# -- trigamma --------------------------------------------------------------------------------------------------------

_BERNOULLI = tuple(2 * j * ratio for j, ratio in enumerate(_ASYMPTOTIC, 1))
_MOST_SQUARED = 1e14  # the series holds at x itself from here on, where powers of x would overflow


def _squares_above() -> tuple[float, ...]:
    """The polynomial above the line where the squares of the ten fractions are one."""
    total = [0] * (2 * _SHIFT - 1)
    for place in range(_SHIFT):
        others = _product([p for p in range(_SHIFT) if p != place])
        for i, a in enumerate(others):
            for j, b in enumerate(others):
                total[i + j] += a * b
    return tuple(map(float, total))


_SQUARES_ABOVE = _squares_above()


def _trigamma_right(x: SimdExpr) -> SimdExpr:
    """trigamma(x) for x >= 0."""
    far = x > _MOST_SQUARED
    bounded = far.where(1.0, x)
    below = horner(bounded, _STEPS_BELOW)
    steps = far.where(0.0, horner(bounded, _SQUARES_ABOVE) / (below * below))
    inverse = 1.0 / far.where(x, x + float(_SHIFT))
    square = inverse * inverse
    series = inverse * square * horner(square, _BERNOULLI)
    return series + 0.5 * square + inverse + steps


def _trigamma(x: SimdExpr) -> SimdExpr:
    """By reflection below 0; infinite at negative integers and at 0."""
    left = x < 0.0

    def reflected() -> SimdExpr:
        ratio = math.pi / sin(_from_whole(x) * math.pi)
        return ratio * ratio - _trigamma_right(left.where(1.0 - x, 1.0))

    return either(left, reflected, lambda: _trigamma_right(left.where(1.0, x)))


def trigamma(x: SimdExpr) -> SimdExpr:
    """The derivative of `digamma`."""
    return called("trigamma", x, lambda x, single: _trigamma(x))
