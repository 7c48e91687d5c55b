"""log, log2, log10, log1p and the inverse hyperbolic functions.

All reduce x = 2**k * (1 + f) with 1 + f between sqrt(1/2) and sqrt(2).  log and log1p have
float32 forms of their own; the others are float64 functions, which float32 widens to.
"""

from __future__ import annotations

from weft.engine.devices.cpu.elementary import coefficients as table
from weft.engine.devices.cpu.elementary.double_double import (
    Pair,
    fast_sum,
    quotient,
    square_root,
    two_product,
    two_sum,
)
from weft.engine.devices.cpu.elementary.exponential import width_of
from weft.engine.devices.cpu.elementary.expressions import SimdExpr, element, fma, horner

SQRT_HALF_BITS = {True: 0x3F3504F3, False: 0x3FE6A09E667F3BCD}
INF, NAN = float("inf"), float("nan")
PER_LN2 = (float.fromhex("0x1.71547652b82fep+0"), float.fromhex("0x1.777d0ffda0d24p-56"))
PER_LN10 = (float.fromhex("0x1.bcb7b1526e50ep-2"), float.fromhex("0x1.95355baaafad3p-57"))
LOG10_2 = (float.fromhex("0x1.34413509f7800p-2"), float.fromhex("0x1.fef311f12b358p-46"))
HUGE = 2.0**28  # x*x + 1 is x*x from here on


def split(x: SimdExpr, normal: bool = False) -> tuple[SimdExpr, SimdExpr]:
    """(k, f), k an integer and f a float, of a positive x; anything for other x.

    Subnormal numbers are right unless the caller promises that there are none."""
    width = width_of(x)
    start, shift = SQRT_HALF_BITS[x.single], width.mantissa + 1
    subnormal = x < 2.0 ** (1 - width.bias)
    scaled = x if normal else subnormal.where(x * 2.0**shift, x)
    above = scaled.bits() - start
    fraction = (above & ((1 << width.mantissa) - 1)) + start
    k = above.shift_signed(width.mantissa)
    if not normal:
        k = k - subnormal.where(above.like(shift), 0)
    return k, fraction.floats() - 1.0


def with_special(x: SimdExpr, result: SimdExpr) -> SimdExpr:
    """`result` for positive finite x; -inf at 0, nan below, x itself for inf and nan."""
    result = (x < INF).where(result, x)
    return (x > 0.0).where(result, x.equals(0.0).where(x.like(-INF), NAN))


def log(x: SimdExpr) -> SimdExpr:
    whole, f = split(x)
    return with_special(x, combine(whole.to_float(element(x.type)), f))


def combine(k: SimdExpr, f: SimdExpr) -> SimdExpr:
    """k*log(2) + log(1 + f)."""
    high, low = width_of(f).ln2
    if f.single:
        small = fma(f * f, horner(f, table.LOG_32), f)
        return fma(k, high, fma(k, low, small))
    half_square = f * f * 0.5
    small = fma(k, low, fraction_tail(f, half_square) - half_square) + f
    return fma(k, high, small)


def fraction_tail(f: SimdExpr, half_square: SimdExpr) -> SimdExpr:
    """log(1 + f) - f + f*f/2 in float64."""
    s = f / (f + 2.0)
    z = s * s
    return s * fma(z, horner(z, table.LOG_64), half_square)


def log_of_pair(x: Pair, doublings: SimdExpr | None = None) -> SimdExpr:
    """log(2**doublings * (high + low)) for normal positive high."""
    width = width_of(x[0])
    whole, f = split(x[0], normal=True)
    k = whole.to_float(element(f.type))
    # Where k is near its limit low is 0, and any finite factor will do.
    most = width.bias - 8
    bounded = (whole < most).where(whole, most)
    f = fma(x[1], ((width.bias - bounded) << width.mantissa).floats(), f)
    return combine(k if doublings is None else k + doublings, f)


def log_in_base(x: SimdExpr, per_base: tuple[float, float], two: tuple[float, float]) -> SimdExpr:
    """log(x) * per_base in float64, both factors as pairs; `two` is the logarithm of 2."""
    whole, f = split(x)
    k = whole.to_float(element(x.type))
    half_square = f * f * 0.5
    high, low = fast_sum(f, -half_square)
    low = low + fraction_tail(f, half_square)
    product, error = two_product(high, per_base[0])
    error = error + fma(high, per_base[1], low * per_base[0])
    total, rest = fast_sum(k * two[0], product)
    if two[1]:
        error = fma(k, two[1], error)
    return with_special(x, total + (rest + error))


def log2(x: SimdExpr) -> SimdExpr:
    return log_in_base(x, PER_LN2, (1.0, 0.0))


def log10(x: SimdExpr) -> SimdExpr:
    return log_in_base(x, PER_LN10, LOG10_2)


def log1p(x: SimdExpr) -> SimdExpr:
    """log of the pair 1 + x."""
    total, low = two_sum(x, 1.0)
    low = (total < INF).where(low, 0.0)
    result = with_special(total, log_of_pair((total, low)))
    return (x.magnitude() < 2.0 ** -(width_of(x).mantissa + 2)).where(x, result)


def asinh(x: SimdExpr) -> SimdExpr:
    """log(|x| + sqrt(x*x + 1)), the sum as a pair."""
    size = x.magnitude()
    square, error = two_product(size, size)
    total, rest = two_sum(square, 1.0)
    result = log_with_root(size, fast_sum(total, rest + error))
    return (size < 2.0**-28).where(size, result).with_sign_of(x)


def acosh(x: SimdExpr) -> SimdExpr:
    square, error = two_product(x, x)
    total, rest = two_sum(square, -1.0)
    result = log_with_root(x, fast_sum(total, rest + error))
    return (x >= 1.0).where(result, NAN)


def log_with_root(x: SimdExpr, radicand: Pair) -> SimdExpr:
    """log(x + sqrt(radicand)), or log(2x) for huge x."""
    root, rest = square_root(radicand)
    total, error = two_sum(x, root)
    huge = x > HUGE
    pair = huge.where(x, total), huge.where(x.like(0.0), error + rest)
    result = log_of_pair(pair, huge.where(x.like(1.0), 0.0))
    return (x < INF).where(result, x)


def atanh(x: SimdExpr) -> SimdExpr:
    """log((1 + |x|)/(1 - |x|)) / 2, the quotient as a pair."""
    size = x.magnitude()
    ratio = quotient(two_sum(size, 1.0), two_sum(-size, 1.0))
    result = log_of_pair(ratio) * 0.5
    result = (size < 1.0).where(result, size.equals(1.0).where(x.like(INF), NAN))
    return (size < 2.0**-28).where(size, result).with_sign_of(x)
