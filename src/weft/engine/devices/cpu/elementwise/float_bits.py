"""The bits of floats: the neighbouring float (nextafter), and mantissa and exponent apart (frexp).

Halves are given as float32 whose values are rounded; their neighbours are as many float32 steps away as they have
fewer bits, and below their normal numbers at a fixed distance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engine.devices.cpu.elementwise.fmod import DOUBLE, Format, biased_exponent, format_of
from weft.engine.devices.cpu.llvm.builder import I32
from weft.engine.devices.cpu.llvm.simd_value import SimdValue

if TYPE_CHECKING:
    from weft.engine.devices.cpu.elementwise.emitter import Emitter

_TINY = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}
_STEP = {
    "float16": 1 << 13,
    "bfloat16": 1 << 16,
    "float32": 1,
    "float64": 1,
}  # to the next float, in bits
_LEAST_NORMAL, _LARGEST = (
    2.0**-14,
    65504.0,
)  # of float16, whose steps the bits of float32 do not have there


def nextafter(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    """The next value of the type after a on the way to b; b where they are equal, nan where one is."""
    zero = e.constant(0, a.dtype)
    grows = e.logical_not(e.logical_xor(e.gt(b, a), e.gt(a, zero)))
    size = e.abs(a)
    moved = e.select(grows, _moved(e, size, True), _moved(e, size, False))
    moved = e.select(e.eq(a, zero), e.constant(_TINY[a.dtype], a.dtype), moved)
    sign = e.select(e.eq(a, zero), b, a)
    moved = SimdValue(a.dtype, e.intrinsic("copysign", moved.value, sign.value))
    moved = e.select(e.eq(a, b), b, moved)
    return e.select(e.logical_or(e.isnan(a), e.isnan(b)), e.add(a, b), moved)


def _moved(e: Emitter, size: SimdValue, up: bool) -> SimdValue:
    """The next value above or below one that is not negative."""
    b, form = e.builder, format_of(size.value)
    bits = b.bitcast(size.value, e.vector(form.bits))
    bits = (b.add if up else b.sub)(bits, e.literal(_STEP[size.dtype], form.bits))
    moved = SimdValue(size.dtype, b.bitcast(bits, size.value.type))
    if size.dtype != "float16":
        return moved
    least, tiny = (e.constant(x, "float16") for x in (_LEAST_NORMAL, _TINY["float16"]))
    if up:
        infinity = e.constant(float("inf"), "float16")
        moved = e.select(e.ge(size, e.constant(_LARGEST, "float16")), infinity, moved)
        return e.select(e.lt(size, least), e.add(size, tiny), moved)
    moved = e.minimum(moved, e.constant(_LARGEST, "float16"))  # from infinity
    return e.select(e.le(size, least), e.sub(size, tiny), moved)


def _regular(e: Emitter, v: SimdValue) -> tuple[Format, SimdValue, SimdValue]:
    """The float format, where the value is finite and not 0, and its size there (1 elsewhere)."""
    form, size = format_of(v.value), e.abs(v)
    regular = e.logical_and(e.gt(size, e.constant(0, v.dtype)), e.isfinite(v))
    return (
        form,
        regular,
        SimdValue(form.dtype, e.select(regular, size, e.constant(1, v.dtype)).value),
    )


def mantissa(e: Emitter, v: SimdValue) -> SimdValue:
    """The part of v in [0.5, 1), with its sign; 0, infinities and nan as they are."""
    b = e.builder
    form, regular, size = _regular(e, v)
    shift = 2.0 ** (form.fraction + 1)
    tiny = e.lt(size, e.constant(2.0 ** (1 - form.bias), form.dtype))
    normal = e.select(tiny, e.mul(size, e.constant(shift, form.dtype)), size)
    bits = b.bitcast(normal.value, e.vector(form.bits))
    bits = b.and_(bits, e.literal((1 << form.fraction) - 1, form.bits))
    bits = b.or_(bits, e.literal((form.bias - 1) << form.fraction, form.bits))
    part = e.intrinsic("copysign", b.bitcast(bits, v.value.type), v.value)
    return e.select(regular, SimdValue(v.dtype, part), v)


def exponent(e: Emitter, v: SimdValue) -> SimdValue:
    """The int32 power of two that `mantissa` is to be multiplied with; 0 for 0, infinities and nan."""
    b = e.builder
    form, regular, size = _regular(e, v)
    power = b.sub(biased_exponent(e, form, size), e.literal(form.bias - 1, form.bits))
    if form is DOUBLE:
        power = b.trunc(power, e.vector(I32))
    return e.select(regular, SimdValue("int32", power), e.constant(0, "int32"))
