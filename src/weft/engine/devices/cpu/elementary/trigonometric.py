"""sin, cos and tan over the whole range.

x = q*pi/2 + (high + low), with pi/2 in three parts where |x| is moderate.  Lanes beyond that take
2/pi to as many bits as they need (Payne and Hanek), one lane at a time; since this is a branch,
each function is an internal function of the module, called where it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from llvmlite import ir

from weft.engine.devices.cpu.elementary import coefficients as table
from weft.engine.devices.cpu.elementary.double_double import (
    Pair,
    fast_sum,
    quotient,
    two_product,
    two_sum,
)
from weft.engine.devices.cpu.elementary.expressions import SimdExpr, fma, horner
from weft.engine.devices.cpu.elementary.functions import any_lane, call_of_own
from weft.engine.devices.cpu.elementary.payne_hanek import reduce_lanes

SHIFTER = 1.5 * 2.0**52
TWO_PER_PI = float.fromhex("0x1.45f306dc9c883p-1")
# The first part has 33 bits, so that k times it is exact for k below 2**20.
HALF_PI = tuple(
    float.fromhex(part)
    for part in ("0x1.921fb54400000p+0", "0x1.0b4611a626331p-34", "0x1.1701b839a2520p-88")
)
MODERATE_64 = 2.0**20
HALF_PI_32 = (float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54"))
MODERATE_32 = 2.0**28


@dataclass(frozen=True)
class Angle:
    """x = quadrant*pi/2 + high + low, quadrant an integer modulo 4."""

    quadrant: SimdExpr
    high: SimdExpr
    low: SimdExpr


def reduce_64(x: SimdExpr) -> Angle:
    shifted = fma(x, TWO_PER_PI, SHIFTER)
    k = shifted - SHIFTER
    first = fma(k, -HALF_PI[0], x)
    product, product_low = two_product(k, HALF_PI[1])
    high, low = two_sum(first, -product)
    high, low = fast_sum(high, fma(k, -HALF_PI[2], low - product_low))
    return Angle(shifted.bits(), high, low)


def reduce_32(x: SimdExpr) -> Angle:
    """For float32 values widened: `low` is not needed and 0."""
    shifted = fma(x, TWO_PER_PI, SHIFTER)
    k = shifted - SHIFTER
    high = fma(k, -HALF_PI_32[1], fma(k, -HALF_PI_32[0], x))
    return Angle(shifted.bits(), high, x.like(0.0))


def sine_64(angle: Angle) -> Pair:
    z = angle.high * angle.high
    tail = angle.high * z * horner(z, table.SIN_64)
    return angle.high, fma(angle.low, fma(z, -0.5, 1.0), tail)


def cosine_64(angle: Angle) -> Pair:
    z = angle.high * angle.high
    half = z * 0.5
    top = 1.0 - half
    rest = fma(-angle.high, angle.low, (1.0 - top) - half)
    return top, fma(z * z, horner(z, table.COS_64), rest)


def ratio_64(a: Pair, b: Pair) -> SimdExpr:
    high, low = quotient(fast_sum(*a), fast_sum(*b))
    return high + low


def sine_32(angle: Angle) -> Pair:
    z = angle.high * angle.high
    return angle.high, angle.high * z * horner(z, table.SIN_32)


def cosine_32(angle: Angle) -> Pair:
    z = angle.high * angle.high
    return z.like(1.0), z * horner(z, (-0.5, *table.COS_32))


def ratio_32(a: Pair, b: Pair) -> SimdExpr:
    return (a[0] + a[1]) / (b[0] + b[1])


@dataclass(frozen=True)
class Kind:
    """The reduction and evaluation of one precision."""

    moderate: float
    reduce: Callable[[SimdExpr], Angle]
    sine: Callable[[Angle], Pair]
    cosine: Callable[[Angle], Pair]
    ratio: Callable[[Pair, Pair], SimdExpr]


KIND_64 = Kind(MODERATE_64, reduce_64, sine_64, cosine_64, ratio_64)
KIND_32 = Kind(MODERATE_32, reduce_32, sine_32, cosine_32, ratio_32)


def choose(mask: SimdExpr, yes: Pair, no: Pair) -> Pair:
    return mask.where(yes[0], no[0]), mask.where(yes[1], no[1])


def turned(quadrant: SimdExpr, even: Pair, odd: Pair) -> SimdExpr:
    """even, odd, -even, -odd in quadrants 0 to 3."""
    high, low = choose((quadrant & 1).equals(0), even, odd)
    return ((high + low).bits() ^ ((quadrant & 2) << 62)).floats()


def sin_of(kind: Kind, angle: Angle) -> SimdExpr:
    return turned(angle.quadrant, kind.sine(angle), kind.cosine(angle))


def cos_of(kind: Kind, angle: Angle) -> SimdExpr:
    return turned(angle.quadrant + 1, kind.sine(angle), kind.cosine(angle))


def tan_of(kind: Kind, angle: Angle) -> SimdExpr:
    """sine/cosine, or -cosine/sine in odd quadrants."""
    sine, cosine = kind.sine(angle), kind.cosine(angle)
    even = (angle.quadrant & 1).equals(0)
    ratio = kind.ratio(choose(even, sine, cosine), choose(even, cosine, sine))
    return (ratio.bits() ^ ((angle.quadrant & 1) << 63)).floats()


RESULTS = {"sin": sin_of, "cos": cos_of, "tan": tan_of}


def build(function: ir.Function, name: str, single: bool) -> None:
    """The body: moderate lanes inline, a second block for huge ones."""
    builder = ir.IRBuilder(function.append_basic_block("moderate"))
    kind = KIND_32 if single else KIND_64
    given = SimdExpr(builder, function.args[0])
    x = given.widened() if single else given
    size = x.magnitude()
    angle = kind.reduce(x)
    huge = size >= kind.moderate
    start = builder.block
    far, ready = function.append_basic_block("huge"), function.append_basic_block("evaluate")
    builder.cbranch(any_lane(builder, huge), far, ready)
    builder.position_at_end(far)
    parts = reduce_lanes(SimdExpr(builder, x.value))
    usual = (angle.quadrant, angle.high, angle.low)
    replaced = [huge.where(new, old) for new, old in zip(parts, usual, strict=True)]
    end = builder.block
    builder.branch(ready)
    builder.position_at_end(ready)
    merged = []
    for old, new in zip(usual, replaced, strict=True):
        phi = builder.phi(old.type)
        phi.add_incoming(old.value, start)
        phi.add_incoming(new.value, end)
        merged.append(SimdExpr(builder, phi))
    result = RESULTS[name](kind, Angle(*merged))
    if name != "cos":
        result = (size < 2.0**-27).where(x, result)
    result = (size < float("inf")).where(result, x - x)
    builder.ret((result.narrowed() if single else result).value)


def call(name: str, x: SimdExpr) -> SimdExpr:
    """A call of the module's own `name`."""
    return call_of_own(name, x, partial(build, name=name, single=x.single))


def sin(x: SimdExpr) -> SimdExpr:
    return call("sin", x)


def cos(x: SimdExpr) -> SimdExpr:
    return call("cos", x)


def tan(x: SimdExpr) -> SimdExpr:
    return call("tan", x)
