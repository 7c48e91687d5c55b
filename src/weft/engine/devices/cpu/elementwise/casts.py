"""Conversions between dtypes, and the rounding of float32 vectors to float16 and bfloat16.

Float to int truncates and saturates (nan gives 0).  bfloat16 goes through integer instructions,
because the hardware conversion flushes denormals.  float64 reaches float16 in one rounding and
bfloat16 by way of float32, as NumPy and PyTorch define them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engine.devices.cpu.llvm.builder import I32, Value
from weft.engine.devices.cpu.llvm.simd_value import (
    COMPLEX,
    DOUBLE,
    ELEMENTS,
    FLOAT,
    FLOATS,
    HALF,
    HALVES,
    I16,
    REAL,
    UNSIGNED,
    SimdValue,
)

if TYPE_CHECKING:
    from weft.engine.devices.cpu.elementwise.emitter import Emitter


def cast(e: Emitter, v: SimdValue, dtype: str) -> SimdValue:
    """`v` as `dtype`."""
    if v.dtype == dtype:
        return v
    if dtype == "bool":
        return e.truth(v)
    if dtype in COMPLEX:
        real = REAL[dtype]
        return SimdValue(dtype, cast(e, e.real(v), real).value, _imaginary(e, v, real))
    if v.dtype in COMPLEX:
        return cast(e, e.real(v), dtype)
    if dtype in FLOATS:
        return SimdValue(dtype, _to_float(e, v, dtype))
    return SimdValue(dtype, _to_integer(e, v, dtype))


def reinterpret(e: Emitter, v: SimdValue, dtype: str) -> SimdValue:
    """The bits of `v`, a float, as the integer type of its size, or of an integer as a float."""
    if v.dtype in HALVES:
        return SimdValue(dtype, to_bits(e, v.dtype, v.value))
    if dtype in HALVES:
        return SimdValue(dtype, from_bits(e, dtype, v.value))
    return SimdValue(dtype, e.builder.bitcast(v.value, e.vector(ELEMENTS[dtype])))


def _imaginary(e: Emitter, v: SimdValue, real: str) -> Value:
    return cast(e, e.imag(v), real).value if v.dtype in COMPLEX else e.constant(0, real).value


def _to_float(e: Emitter, v: SimdValue, dtype: str) -> Value:
    target = e.vector(ELEMENTS[dtype])
    if v.dtype not in FLOATS:
        signed = v.dtype not in ("bool", *UNSIGNED)
        convert = e.builder.sitofp if signed else e.builder.uitofp
        value = convert(v.value, target)
        return round_half(e, dtype, value) if dtype in HALVES else value
    if dtype == "float64":
        return e.builder.fpext(v.value, target)
    if v.dtype == "float64" and dtype == "float16":
        return round_half(e, dtype, _round_to_odd(e, v.value))
    value = e.builder.fptrunc(v.value, target) if v.dtype == "float64" else v.value
    return round_half(e, dtype, value) if dtype in HALVES else value


def _to_integer(e: Emitter, v: SimdValue, dtype: str) -> Value:
    element = ELEMENTS[dtype]
    target = e.vector(element)
    if v.dtype in FLOATS:
        return _saturated(e, v, dtype)
    width = ELEMENTS[v.dtype].width
    if width > element.width:
        return e.builder.trunc(v.value, target)
    if width == element.width:
        return v.value
    extend = e.builder.zext if v.dtype in ("bool", *UNSIGNED) else e.builder.sext
    return extend(v.value, target)


def _saturated(e: Emitter, v: SimdValue, dtype: str) -> Value:
    """Truncated to an integer inside its range, nan to 0: no lane is out of the hardware's range.

    Where the largest integer is no float, values beyond the float below it are replaced after.
    """
    b, element = e.builder, ELEMENTS[dtype]
    number = SimdValue("float64" if v.value.type.element == DOUBLE else "float32", v.value)
    precision = 53 if number.dtype == "float64" else 24
    unsigned = dtype in UNSIGNED
    bits = element.width - (not unsigned)
    highest, lowest = (1 << bits) - 1, 0 if unsigned else -(1 << bits)
    top = highest if bits <= precision else (1 << bits) - (1 << (bits - precision))
    low, high = e.constant(lowest, number.dtype), e.constant(top, number.dtype)
    safe = e.select(e.isnan(number), e.constant(0, number.dtype), number)
    safe = e.select(e.lt(safe, low), low, safe)
    safe = e.select(e.gt(safe, high), high, safe)
    wide = e.vector(element if element.width >= 32 else I32)
    convert = b.fptoui if unsigned else b.fptosi
    result = b.trunc(convert(safe.value, wide), e.vector(element))
    if top == highest:
        return result
    beyond = e.gt(number, high)
    return b.select(beyond.value, e.literal(highest, element), result)


def _round_to_odd(e: Emitter, value: Value) -> Value:
    """float64 as float32, an inexact result made odd: a later rounding is then the only one."""
    b = e.builder
    narrow = b.fptrunc(value, e.vector(FLOAT))
    back = b.fpext(narrow, value.type)
    bits = b.bitcast(narrow, e.vector(I32))
    away = b.fcmp_ordered(
        ">", e.abs(SimdValue("float64", back)).value, e.abs(SimdValue("float64", value)).value
    )
    bits = b.sub(bits, b.zext(away, bits.type))
    inexact = b.fcmp_ordered("!=", back, value)
    bits = b.or_(bits, b.zext(inexact, bits.type))
    return b.bitcast(bits, narrow.type)


def round_half(e: Emitter, dtype: str, value: Value) -> Value:
    """A float32 vector rounded to float16 or bfloat16, still as float32."""
    if dtype == "float16":
        return from_bits(e, dtype, to_bits(e, dtype, value))
    b = e.builder
    bits = b.and_(_rounded_bits(e, value), e.literal(-(1 << 16), I32))
    return b.bitcast(bits, value.type)


def to_bits(e: Emitter, dtype: str, value: Value) -> Value:
    """The 16-bit pattern of a float32 vector that is already rounded to float16 or bfloat16."""
    b = e.builder
    if dtype == "float16":
        return b.bitcast(b.fptrunc(value, e.vector(HALF)), e.vector(I16))
    bits = b.bitcast(value, e.vector(I32))
    return b.trunc(b.lshr(bits, e.literal(16, I32)), e.vector(I16))


def _rounded_bits(e: Emitter, value: Value) -> Value:
    """Float32 bits whose upper half is the nearest bfloat16 (halves to even, nan kept quiet)."""
    b = e.builder
    bits = b.bitcast(value, e.vector(I32))
    odd = b.and_(b.lshr(bits, e.literal(16, I32)), e.literal(1, I32))
    rounded = b.add(bits, b.add(odd, e.literal(0x7FFF, I32)))
    quiet = b.or_(bits, e.literal(1 << 22, I32))
    return b.select(b.fcmp_unordered("uno", value, value), quiet, rounded)


def from_bits(e: Emitter, dtype: str, bits: Value) -> Value:
    """16-bit patterns as a float32 vector."""
    b = e.builder
    if dtype == "float16":
        return b.fpext(b.bitcast(bits, e.vector(HALF)), e.vector(FLOAT))
    wide = b.shl(b.zext(bits, e.vector(I32)), e.literal(16, I32))
    return b.bitcast(wide, e.vector(FLOAT))
