"""exp, exp2, expm1, tanh, sigmoid, sinh and cosh on lanes of float32 or float64.

All reduce x = k*ln2 + r with |r| <= ln2/2, k found by adding a large number whose last bit is one,
and evaluate a polynomial in r.  The sum's integer bits then carry k, so that 2**k is a shift.
Errors are below 2 ulp over the whole range, subnormal results included.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.engine.devices.cpu.elementary import coefficients as table
from weft.engine.devices.cpu.elementary.expressions import SimdExpr, fma, horner

LOG2E = float.fromhex("0x1.71547652b82fep+0")
BELOW_QUARTER_LN2 = (
    0.17328  # slightly below ln2 / 4, so that the number rounded for x = 0 is no tie
)


@dataclass(frozen=True)
class Width:
    """The constants that differ between float32 and float64."""

    mantissa: int  # stored bits
    bias: int
    ln2: tuple[float, float]  # high part (k * high is exact under fma), low part
    exp_range: tuple[float, float]  # beyond these, exp is inf or 0
    exp2_range: tuple[float, float]
    expm1_low: float  # below this, expm1 is -1
    tanh_high: float  # above this, tanh is 1
    exp: tuple[float, ...]
    exp2: tuple[float, ...]
    expm1: tuple[float, ...]
    tanh: tuple[float, ...]  # expm1(2r)/2 on [0, ln2/2]

    @property
    def shifter(self) -> float:
        """1.5 * 2**mantissa: adding it rounds to an integer, kept in the sum's low bits."""
        return 1.5 * 2.0**self.mantissa


SINGLE = Width(
    23,
    127,
    (float.fromhex("0x1.62e43p-1"), float.fromhex("-0x1.05c61p-29")),
    (-104.5, 89.0),
    (-151.0, 128.5),
    -18.0,
    9.5,
    table.EXP_32,
    table.EXP2_32,
    table.EXPM1_32,
    table.TANH_32,
)
DOUBLE = Width(
    52,
    1023,
    (float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56")),
    (-746.0, 710.0),
    (-1076.0, 1024.5),
    -40.0,
    20.0,
    table.EXP_64,
    table.EXP2_64,
    table.EXPM1_64,
    table.TANH_64,
)


def width_of(x: SimdExpr) -> Width:
    return SINGLE if x.single else DOUBLE


def reduce(x: SimdExpr, offset: int) -> tuple[SimdExpr, SimdExpr]:
    """(t, r) with x = k*ln2 + r; the low bits of t's integer form hold k + offset."""
    width = width_of(x)
    shifted = fma(x, LOG2E, width.shifter + offset)
    k = shifted - (width.shifter + offset)
    r = fma(k, -width.ln2[1], fma(k, -width.ln2[0], x))
    return shifted, r


def power_of_two(shifted: SimdExpr) -> SimdExpr:
    """2**k from the t of `reduce` with offset bias; k must be a normal exponent."""
    return (shifted.bits() << width_of(shifted).mantissa).floats()


def scale(value: SimdExpr, shifted: SimdExpr) -> SimdExpr:
    """value * 2**k in two factors, for any k that a result may need; offset 2*bias."""
    mantissa = width_of(value).mantissa
    bits = shifted.bits()
    half = (bits >> 1) << mantissa
    return value * half.floats() * ((bits << mantissa) - half).floats()


def exp(x: SimdExpr) -> SimdExpr:
    width = width_of(x)
    clamped = x.at_most(width.exp_range[1]).at_least(width.exp_range[0])
    shifted, r = reduce(clamped, 2 * width.bias)
    return scale(horner(r, width.exp), shifted)


def exp2(x: SimdExpr) -> SimdExpr:
    width = width_of(x)
    clamped = x.at_most(width.exp2_range[1]).at_least(width.exp2_range[0])
    shifter = width.shifter + 2 * width.bias
    shifted = clamped + shifter
    return scale(horner(clamped - (shifted - shifter), width.exp2), shifted)


def expm1(x: SimdExpr) -> SimdExpr:
    width = width_of(x)
    clamped = x.at_most(width.exp_range[1]).at_least(width.expm1_low)
    # Half of 2**k, so that k may be one more than the largest exponent.
    shifted = fma(clamped, LOG2E, width.shifter + width.bias - 1)
    k = shifted - (width.shifter + width.bias - 1)
    exact = fma(k, -width.ln2[0], clamped)
    low = k * width.ln2[1]
    r = exact - low
    tail = fma(r * r, horner(r, width.expm1), (exact - r) - low)
    half = power_of_two(shifted)
    result = fma(half, tail, fma(half, r, half - 0.5))
    return (x.magnitude() < 2.0 ** -(width.mantissa + 2)).where(x, result + result)


def tanh(x: SimdExpr) -> SimdExpr:
    """e/(e + 1) with e = expm1(2|x|)/2 = 2**k * p + (2**k - 1)/2.

    Here |x| = k*ln2/2 + r with r in [0, ln2/2], so that no term of e is negative and nothing cancels. What the
    rounding of e + 1 and of the quotient q leaves is e - q - q*e, which is added, divided by e + 1, up to 4; from
    there on it no longer matters, and would soon not be exact.
    """
    width = width_of(x)
    size = x.magnitude().at_most(width.tanh_high)
    shifter = width.shifter + width.bias
    shifted = fma(size - BELOW_QUARTER_LN2, 2 * LOG2E, shifter)
    r = fma(shifted - shifter, -width.ln2[0] / 2, size)
    power = power_of_two(shifted)
    p = fma(r * r, horner(r, width.tanh), r)
    e = fma(power, p, fma(power, 0.5, -0.5))
    q = e / (e + 1.0)
    nearer = fma(1.0 - q, fma(-q, e, e - q), q)
    return (size < 4.0).where(nearer, q).with_sign_of(x)


def sigmoid(x: SimdExpr) -> SimdExpr:
    """1 - v or e - e*v with v = e/(1 + e) and e = exp(-|x|), which cannot overflow."""
    width = width_of(x)
    clamped = (-x.magnitude()).at_least(width.exp_range[0])
    shifted, r = reduce(clamped, 2 * width.bias)
    e = scale(horner(r, width.exp), shifted)
    top = (x < 0.0).where(e, 1.0)
    return fma(-(e / (e + 1.0)), top, top)


def half_exp(size: SimdExpr) -> SimdExpr:
    """exp(size)/2 for size >= 0, which overflows where sinh and cosh do."""
    width = width_of(size)
    shifted, r = reduce(size.at_most(width.exp_range[1] + 1.0), 2 * width.bias - 1)
    return scale(horner(r, width.exp), shifted)


def cosh(x: SimdExpr) -> SimdExpr:
    half = half_exp(x.magnitude())
    return half + 0.25 / half


def sinh(x: SimdExpr) -> SimdExpr:
    """In float64: a polynomial up to 1, exponentials beyond."""
    size = x.magnitude()
    z = size * size
    small = fma(size * z, horner(z, table.SINH_64), size)
    half = half_exp(size)
    return (size < 1.0).where(small, half - 0.25 / half).with_sign_of(x)
