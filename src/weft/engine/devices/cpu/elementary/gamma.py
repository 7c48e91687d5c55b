"""The logarithm of |gamma| in float64, by Lanczos' series (1964) with the coefficients of Godfrey for g = 7, n = 9.

The series of fractions is one of two polynomials here, whose coefficients are all positive.
"""

from __future__ import annotations

import math
from fractions import Fraction

from weft.engine.devices.cpu.elementary.expressions import SimdExpr, horner, intrinsic
from weft.engine.devices.cpu.elementary.logarithm import log
from weft.engine.devices.cpu.elementary.trigonometric import sin

_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
TINY = 2.0**-60  # gamma(x) is 1 / x below this
_MOST = 1e30  # the series is its first term from here on, where powers of x would overflow


def _product(roots: list[int]) -> list[Fraction]:
    """The coefficients of the product of (x + root), lowest power first."""
    found = [Fraction(1)]
    for root in roots:
        pairs = zip([*found, Fraction(0)], [Fraction(0), *found], strict=True)
        found = [low * root + high for low, high in pairs]
    return found


def _joined() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The polynomials above and below the line."""
    places = list(range(len(_LANCZOS) - 1))
    below = _product(places)
    above = [Fraction(_LANCZOS[0]) * c for c in below]
    for place, weight in zip(places, _LANCZOS[1:], strict=True):
        others = _product([p for p in places if p != place])
        above = [
            a + Fraction(weight) * c for a, c in zip(above, [*others, Fraction(0)], strict=True)
        ]
    return tuple(map(float, above)), tuple(map(float, below))


_ABOVE, _BELOW = _joined()


def _log_gamma(x: SimdExpr) -> SimdExpr:
    """log gamma(x) for x >= 0.5."""
    bounded = x.at_most(_MOST)
    total = horner(bounded, _ABOVE) / horner(bounded, _BELOW)
    turned = log(x + 6.5) - 1.0
    return (x - 0.5) * turned + (log(total) + (_HALF_LOG_TWO_PI - 7.0))


def lgamma(x: SimdExpr) -> SimdExpr:
    """log |gamma(x)|, by reflection below 0.5."""
    left = x < 0.5
    value = _log_gamma(left.where(1.0 - x, x))
    part = x - SimdExpr(x.builder, intrinsic(x.builder, "roundeven", x.type, x.value))  # exact
    sine = sin(part * math.pi).magnitude()
    value = left.where(math.log(math.pi) - log(sine) - value, value)
    size = x.magnitude()
    value = (size < TINY).where(-log(size), value)
    return size.equals(float("inf")).where(x.like(float("inf")), value)
