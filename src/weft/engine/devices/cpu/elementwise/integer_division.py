"""Integer division, remainders, powers and shifts that cannot trap.

Division by zero gives 0 (the recorder raises where it must), the smallest integer divided by -1
wraps, shift counts outside the width behave as very large ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engine.devices.cpu.llvm.builder import I1, Value
from weft.engine.devices.cpu.llvm.simd_value import ELEMENTS, UNSIGNED, SimdValue

if TYPE_CHECKING:
    from weft.engine.devices.cpu.elementwise.emitter import Emitter


def _guarded(e: Emitter, op: str, a: SimdValue, b: SimdValue) -> SimdValue:
    """a op b by a divisor that cannot trap, and 0 where b is 0."""
    zero, one = e.constant(0, b.dtype), e.constant(1, b.dtype)
    by_zero = e.eq(b, zero)
    harmful = by_zero
    if b.dtype not in UNSIGNED:
        lowest = e.constant(-(1 << (ELEMENTS[b.dtype].width - 1)), b.dtype)
        overflow = e.logical_and(e.eq(a, lowest), e.eq(b, e.constant(-1, b.dtype)))
        harmful = e.logical_or(by_zero, overflow)
    safe = e.select(harmful, one, b)
    method = getattr(e.builder, f"{'u' if b.dtype in UNSIGNED else 's'}{op}")
    return e.select(by_zero, zero, SimdValue(a.dtype, method(a.value, safe.value)))


def divide(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    """a / b towards zero."""
    return _guarded(e, "div", a, b)


def fmod(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    """The remainder with the sign of a."""
    return _guarded(e, "rem", a, b)


def _signs_differ(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    zero = e.constant(0, a.dtype)
    return e.logical_xor(e.lt(a, zero), e.lt(b, zero))


def remainder(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    """The remainder with the sign of b."""
    rest = fmod(e, a, b)
    if a.dtype in UNSIGNED:
        return rest
    wrong = e.logical_and(e.truth(rest), _signs_differ(e, rest, b))
    return e.select(wrong, e.add(rest, b), rest)


def floordiv(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    """a / b rounded down."""
    quotient = divide(e, a, b)
    if a.dtype in UNSIGNED:
        return quotient
    inexact = e.ne(e.mul(quotient, b), a)
    below = e.logical_and(e.logical_and(inexact, e.truth(b)), _signs_differ(e, a, b))
    return e.select(below, e.sub(quotient, e.constant(1, a.dtype)), quotient)


def shl(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    """a << b."""
    inside = _inside(e, b)
    safe = e.select(inside, b, e.constant(0, b.dtype))
    shifted = SimdValue(a.dtype, e.builder.shl(a.value, safe.value))
    return e.select(inside, shifted, e.constant(0, a.dtype))


def shr(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    """a >> b."""
    width = ELEMENTS[a.dtype].width
    safe = e.select(_inside(e, b), b, e.constant(width - 1, b.dtype))
    if a.dtype not in UNSIGNED:
        return SimdValue(a.dtype, e.builder.ashr(a.value, safe.value))
    shifted = SimdValue(a.dtype, e.builder.lshr(a.value, safe.value))
    return e.select(_inside(e, b), shifted, e.constant(0, a.dtype))


def _inside(e: Emitter, count: SimdValue) -> SimdValue:
    width = e.constant(ELEMENTS[count.dtype].width, count.dtype)
    return SimdValue("bool", e.builder.icmp_unsigned("<", count.value, width.value))


def pow(e: Emitter, base: SimdValue, exponent: SimdValue) -> SimdValue:  # noqa: A001
    """base ** exponent by squaring; where the exponent is negative, 1 / base ** -exponent."""
    one, zero = e.constant(1, base.dtype), e.constant(0, base.dtype)
    result = SimdValue(base.dtype, _squarings(e, base.value, exponent.value, one.value))
    if base.dtype in UNSIGNED:
        return result
    odd = e.truth(e.bitwise_and(exponent, one))
    minus = e.constant(-1, base.dtype)
    unit = e.select(e.eq(base, minus), e.select(odd, minus, one), zero)
    inverse = e.select(e.eq(base, one), one, unit)
    return e.select(e.lt(exponent, zero), inverse, result)


def _squarings(e: Emitter, base: Value, exponent: Value, one: Value) -> Value:
    b = e.builder
    before, loop, after = b.block, b.append_basic_block("pow"), b.append_basic_block("powed")
    b.branch(loop)
    b.position_at_end(loop)
    values = [b.phi(base.type) for _ in range(3)]
    for phi, start in zip(values, (one, base, exponent), strict=True):
        phi.add_incoming(start, before)
    result, square, rest = values
    zero = Value(base.type, "zeroinitializer")
    odd = b.icmp_signed("!=", b.and_(rest, one), zero)
    product = b.select(odd, b.mul(result, square), result)
    shifted = b.lshr(rest, one)
    for phi, value in zip(values, (product, b.mul(square, square), shifted), strict=True):
        phi.add_incoming(value, b.block)
    b.cbranch(any_lane(e, b.icmp_signed("!=", shifted, zero)), loop, after)
    b.position_at_end(after)
    return product


def any_lane(e: Emitter, mask: Value) -> Value:
    """True (as i1, in the kernel) if one lane of a mask is set."""
    return e.builder.intrinsic(f"llvm.vector.reduce.or.v{e.lanes}i1", I1, [mask])


def gcd(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    """The greatest common divisor by Euclid's algorithm, not negative; of 0 and b it is |b|."""
    builder = e.builder
    sizes = [e.abs(v).value for v in (a, b)]
    before = builder.block
    loop, after = builder.append_basic_block("gcd"), builder.append_basic_block("gcded")
    builder.branch(loop)
    builder.position_at_end(loop)
    larger, smaller = phis = [builder.phi(size.type) for size in sizes]
    for phi, start in zip(phis, sizes, strict=True):
        phi.add_incoming(start, before)
    zero = Value(larger.type, "zeroinitializer")
    divides = builder.icmp_signed("!=", smaller, zero)
    divisor = builder.select(divides, smaller, e.constant(1, a.dtype).value)
    rest = builder.select(divides, builder.urem(larger, divisor), zero)
    result = builder.select(divides, smaller, larger)
    larger.add_incoming(result, builder.block)
    smaller.add_incoming(rest, builder.block)
    builder.cbranch(any_lane(e, builder.icmp_signed("!=", rest, zero)), loop, after)
    builder.position_at_end(after)
    return SimdValue(a.dtype, result)
