"""Floating remainders, exact: fmod by repeated fused steps, Python's % and // on top of it.

fmod(a, b) is exact by definition.  Each step subtracts a multiple q * (b * 2**k) with q < 2**21
from |a|, which one fused multiply-add does without error; the exponents' distance decides how many
steps there are, nearly always one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weft.engine.devices.cpu.elementwise.integer_division import any_lane
from weft.engine.devices.cpu.llvm.builder import I32, I64, Value
from weft.engine.devices.cpu.llvm.simd_value import SimdValue

if TYPE_CHECKING:
    from weft.engine.devices.cpu.elementwise.emitter import Emitter


class Format(NamedTuple):
    """A float format: its integer type, fraction bits, exponent bias."""

    dtype: str
    bits: Any
    fraction: int
    bias: int


SINGLE = Format("float32", I32, 23, 127)
DOUBLE = Format("float64", I64, 52, 1023)
_STEP = 20  # bits of the quotient per step


def format_of(value: Value) -> Format:
    return SINGLE if str(value.type.element) == "float" else DOUBLE


def fmod(e: Emitter, a: Value, b: Value) -> Value:
    """The remainder of a / b with the sign of a; nan for an infinite a or a zero b."""
    form = format_of(a)
    dividend, divisor = (e.abs(SimdValue(form.dtype, x)) for x in (a, b))
    infinity, zero = e.constant(float("inf"), form.dtype), e.constant(0, form.dtype)
    valid = e.logical_and(e.lt(dividend, infinity), e.gt(divisor, zero))
    finite = e.logical_and(valid, e.lt(divisor, infinity))
    one = e.constant(1, form.dtype)
    safe = e.select(finite, divisor, one)
    rest = _reduce(e, form, e.select(finite, dividend, zero), safe)
    unchanged = e.logical_and(valid, e.eq(divisor, infinity))
    rest = e.select(unchanged, dividend, rest)
    rest = e.select(valid, rest, e.constant(float("nan"), form.dtype))
    return e.intrinsic("copysign", rest.value, a)


def _reduce(e: Emitter, form: Format, dividend: SimdValue, divisor: SimdValue) -> SimdValue:
    """The remainder of two finite positive values, in a loop until it is below the divisor."""
    b = e.builder
    before, step, after = b.block, b.append_basic_block("fmod"), b.append_basic_block("fmoded")
    exponent = biased_exponent(e, form, divisor)
    before = b.block
    b.branch(step)
    b.position_at_end(step)
    phi = b.phi(dividend.value.type)
    phi.add_incoming(dividend.value, before)
    rest = SimdValue(form.dtype, phi)
    scaled = _scaled(e, form, divisor, b.sub(biased_exponent(e, form, rest), exponent))
    quotient = e.trunc(e.div(rest, scaled))
    remains = e.fma(e.neg(quotient), scaled, rest)
    negative = e.lt(remains, e.constant(0, form.dtype))
    remains = e.select(negative, e.add(remains, scaled), remains)
    phi.add_incoming(remains.value, b.block)
    b.cbranch(any_lane(e, e.ge(remains, divisor).value), step, after)
    b.position_at_end(after)
    return remains


def biased_exponent(e: Emitter, form: Format, v: SimdValue) -> Value:
    """The exponent of a positive value, also of a denormal one."""
    b = e.builder
    tiny = e.lt(v, e.constant(2.0 ** (1 - form.bias), form.dtype))
    shift = form.fraction + 1
    normal = e.select(tiny, e.mul(v, e.constant(2.0**shift, form.dtype)), v)
    bits = b.bitcast(normal.value, e.vector(form.bits))
    raw = b.lshr(bits, e.literal(form.fraction, form.bits))
    moved = b.sub(raw, e.literal(shift, form.bits))
    return b.select(tiny.value, moved, raw)


def _scaled(e: Emitter, form: Format, divisor: SimdValue, distance: Value) -> SimdValue:
    """divisor * 2**k, with k such that the quotient has at most _STEP + 1 bits."""
    b = e.builder
    excess = b.sub(distance, e.literal(_STEP, form.bits))
    zero = e.literal(0, form.bits)
    power = b.select(b.icmp_signed(">", excess, zero), excess, zero)
    quarter = b.lshr(power, e.literal(2, form.bits))
    rest = b.sub(power, b.mul(quarter, e.literal(3, form.bits)))
    # Four factors: from a denormal to the largest float it is further than two powers of two reach.
    for part in (quarter, quarter, quarter, rest):
        biased = b.add(part, e.literal(form.bias, form.bits))
        bits = b.shl(biased, e.literal(form.fraction, form.bits))
        factor = SimdValue(form.dtype, b.bitcast(bits, divisor.value.type))
        divisor = e.mul(divisor, factor)
    return divisor


def remainder(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    """a - b * floor(a / b): the sign of b."""
    rest = e.fmod(a, b)
    zero = e.constant(0, a.dtype)
    differ = e.ne(e.lt(rest, zero), e.lt(b, zero))
    wrong = e.logical_and(e.ne(rest, zero), differ)
    return e.select(wrong, e.add(rest, b), rest)


def floordiv(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    """floor(a / b), computed from the exact remainder as Python does; a / b where b is 0."""
    rest, zero, one = e.fmod(a, b), e.constant(0, a.dtype), e.constant(1, a.dtype)
    quotient = e.div(e.sub(a, rest), b)
    differ = e.ne(e.lt(rest, zero), e.lt(b, zero))
    below = e.logical_and(e.ne(rest, zero), differ)
    quotient = e.select(below, e.sub(quotient, one), quotient)
    whole = e.floor(quotient)
    half = e.constant(0.5, a.dtype)
    whole = e.select(e.gt(e.sub(quotient, whole), half), e.add(whole, one), whole)
    exact = e.div(a, b)
    signed_zero = SimdValue(a.dtype, e.intrinsic("copysign", zero.value, exact.value))
    whole = e.select(e.eq(quotient, zero), signed_zero, whole)
    return e.select(e.eq(b, zero), exact, whole)
