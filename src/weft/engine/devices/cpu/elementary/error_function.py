"""erf, erfc and the inverse of erf.

float32 erf has polynomials of its own.  The others rest on a float64 polynomial for
(1 + 2x) exp(x*x) erfc(x) in t = (x - c)/(x + c), which covers 0 <= x < inf.
"""

from __future__ import annotations

from weft.engine.devices.cpu.elementary import coefficients as table
from weft.engine.devices.cpu.elementary.double_double import Pair, fast_sum, two_product
from weft.engine.devices.cpu.elementary.exponential import DOUBLE, reduce, scale
from weft.engine.devices.cpu.elementary.expressions import SimdExpr, fma, horner
from weft.engine.devices.cpu.elementary.logarithm import log

CENTRE = 3.75
NEAR, FAR = 3.0, 4.25  # centres of the polynomials of the inverse
ERFC_HIGH = 27.3  # erfc is 0 above this


def erf_32(x: SimdExpr) -> SimdExpr:
    size = x.magnitude().at_most(3.9375)
    small = fma(size, horner(size * size, table.ERF_SMALL_32), size)
    large = 1.0 - horner(size - 2.59375, table.ERF_LARGE_32)
    return (size > 1.25).where(large, small).with_sign_of(x)


def exp_of_negative_square(x: SimdExpr) -> tuple[Pair, SimdExpr]:
    """((high, low), t) with exp(-x*x) = (high + low) * 2**k, for `scale`."""
    square, error = two_product(x, x)
    shifted, r = reduce(-square, 2 * DOUBLE.bias)
    tail = horner(r, DOUBLE.exp[1:])
    high, low = fast_sum(x.like(1.0), r * tail)
    return (high, low - error * high), shifted


def erfc_of_size(size: SimdExpr) -> SimdExpr:
    """erfc of size in [0, ERFC_HIGH]."""
    t = (size - CENTRE) / (size + CENTRE)
    above, above_low = fast_sum(size.like(table.ERFC_64[0]), t * horner(t, table.ERFC_64[1:]))
    (power, power_low), shifted = exp_of_negative_square(size)
    below, below_low = fast_sum(size.like(1.0), size + size)
    product, product_low = two_product(above, power)
    product_low = product_low + fma(above, power_low, above_low * power)
    ratio = product / below
    rest = fma(-ratio, below_low, fma(-ratio, below, product) + product_low)
    return scale(ratio + rest / below, shifted)


def near_zero(x: SimdExpr) -> SimdExpr:
    """erf for |x| <= 1."""
    return fma(x, horner(x * x, table.ERF_64), x)


def erfc(x: SimdExpr) -> SimdExpr:
    size = x.magnitude().at_most(ERFC_HIGH)
    far = erfc_of_size(size)
    return (size < 0.5).where(1.0 - near_zero(x), (x < 0.0).where(2.0 - far, far))


def erf(x: SimdExpr) -> SimdExpr:
    """1 - erfc beyond 1; float32 has `erf_32`."""
    if x.single:
        return erf_32(x)
    size = x.magnitude().at_most(7.0)
    far = 1.0 - erfc_of_size(size)
    return (size < 1.0).where(near_zero(size), far).with_sign_of(x)


def erfinv(x: SimdExpr) -> SimdExpr:
    """By polynomials in w = -log(1 - x*x), from 6 on in its root; nan beyond 1."""
    size = x.magnitude()
    w = -log((1.0 - size) * (size + 1.0))
    near = size * horner(w - NEAR, table.ERFINV_NEAR_64)
    far = horner(w.square_root() - FAR, table.ERFINV_FAR_64)
    inverse = (w > 6.0).where(far, near)
    return size.equals(1.0).where(x.like(float("inf")), inverse).with_sign_of(x)
