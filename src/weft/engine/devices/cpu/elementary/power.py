"""pow: exp(y * log|x|), the logarithm a pair in float64, and the special cases of IEEE 754."""

from __future__ import annotations

from weft.engine.devices.cpu.elementary import coefficients as table
from weft.engine.devices.cpu.elementary.double_double import Pair, fast_sum, two_product
from weft.engine.devices.cpu.elementary.exponential import DOUBLE, reduce, scale
from weft.engine.devices.cpu.elementary.expressions import SimdExpr, element, fma, horner
from weft.engine.devices.cpu.elementary.logarithm import INF, NAN, log, split

THIRD = (float.fromhex("0x1.5555555555555p-2"), float.fromhex("0x1.5555555555555p-56"))
LN2 = (float.fromhex("0x1.62e42fefa3800p-1"), float.fromhex("0x1.ef35793c76730p-45"))


def log_pair(x: SimdExpr) -> Pair:
    """log(x) of a positive finite x with a relative error near 2**-64.

    With s = f/(2 + f) and z = s*s, log(1 + f) = 2s (1 + z/3 + z*z*q(z)).
    """
    whole, f = split(x)
    k = whole.to_float(element(x.type))
    below = f + 2.0
    s = f / below
    s_low = fma(-s, f - (below - 2.0), fma(-s, below, f)) / below
    z = s * s
    z_low = fma(s, s, -z) + s * s_low * 2.0
    third, third_low = two_product(z, THIRD[0])
    third_low = third_low + fma(z, THIRD[1], z_low * THIRD[0])
    series, rest = fast_sum(third, z * z * horner(z, table.ATANH_64))
    rest = rest + third_low
    twice, twice_low = s + s, s_low + s_low
    product, error = two_product(twice, series)
    high, low = fast_sum(twice, product)
    low = low + (error + fma(twice, rest, fma(twice_low, series, twice_low)))
    total, carry = fast_sum(k * LN2[0], high)
    return total, fma(k, LN2[1], low + carry)


def power_64(size: SimdExpr, y: SimdExpr) -> SimdExpr:
    """size**y for size > 0, also 0 and inf for y other than 0."""
    high, low = log_pair(size)
    usual = (size > 0.0) & (size < INF)
    high = usual.where(high, size.equals(0.0).where(size.like(-INF), size))
    low = usual.where(low, 0.0)
    product, error = two_product(high, y)
    error = fma(low, y, error)
    # Far outside, the error may be inf - inf.
    error = (product.magnitude() < 800.0).where(error, 0.0)
    clamped = product.at_most(DOUBLE.exp_range[1]).at_least(DOUBLE.exp_range[0])
    shifted, r = reduce(clamped, 2 * DOUBLE.bias)
    return scale(horner(r + error, DOUBLE.exp), shifted)


def power_32(size: SimdExpr, y: SimdExpr) -> SimdExpr:
    """The same with one float64 logarithm, exact enough for float32."""
    product = (log(size) * y).at_most(DOUBLE.exp_range[1]).at_least(DOUBLE.exp_range[0])
    shifted, r = reduce(product, 2 * DOUBLE.bias)
    return scale(horner(r, DOUBLE.exp), shifted)


def with_special(x: SimdExpr, y: SimdExpr, size: SimdExpr, result: SimdExpr) -> SimdExpr:
    """Signs and special values, given result = |x|**y."""
    integral = y.truncated().equals(y)
    halved = y * 0.5
    odd = integral & (halved.truncated().equals(halved) ^ 1)
    flipped = odd.where(result.with_sign_of(x), result)
    impossible = (x < 0.0) & (x > -INF) & (integral ^ 1)
    flipped = impossible.where(x.like(NAN), flipped)
    one = y.equals(0.0) | x.equals(1.0) | (size.equals(1.0) & y.magnitude().equals(INF))
    return one.where(x.like(1.0), flipped)


def pow_64(x: SimdExpr, y: SimdExpr) -> SimdExpr:
    size = x.magnitude()
    return with_special(x, y, size, power_64(size, y))


def pow_32(x: SimdExpr, y: SimdExpr) -> SimdExpr:
    """On float32 values widened to float64."""
    size = x.magnitude()
    return with_special(x, y, size, power_32(size, y))
