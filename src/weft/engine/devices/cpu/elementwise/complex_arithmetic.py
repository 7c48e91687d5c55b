"""Complex arithmetic and functions over pairs of real vectors; the inverse functions have a module of their own.

Products are the textbook formula with four multiplications, quotients Smith's; magnitudes and
square roots scale by powers of two, so that nothing overflows on the way.  The functions follow
their definitions through real exp, log, sin and cos; infinities and nan give what annex G of C99 has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.engine.devices.cpu.llvm.simd_value import REAL, SimdValue

if TYPE_CHECKING:
    from weft.engine.devices.cpu.elementwise.emitter import Emitter


def parts(v: SimdValue) -> tuple[SimdValue, SimdValue]:
    real, imag = v.parts
    return SimdValue(REAL[v.dtype], real), SimdValue(REAL[v.dtype], imag)


def add(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    """a + b."""
    pairs = zip(parts(a), parts(b), strict=True)
    return e.complex(*(e.add(x, y) for x, y in pairs))


def sub(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    """a - b."""
    pairs = zip(parts(a), parts(b), strict=True)
    return e.complex(*(e.sub(x, y) for x, y in pairs))


def mul(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    """a * b."""
    (ar, ai), (br, bi) = parts(a), parts(b)
    real = e.sub(e.mul(ar, br), e.mul(ai, bi))
    return e.complex(real, e.add(e.mul(ar, bi), e.mul(ai, br)))


def div(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    """a / b, by Smith's method; with b zero, each part of a divided by |b|."""
    (ar, ai), (br, bi) = parts(a), parts(b)
    swap = e.lt(e.abs(br), e.abs(bi))
    large, small = e.select(swap, bi, br), e.select(swap, br, bi)
    zero = e.constant(0, br.dtype)
    nothing = e.eq(large, zero)
    ratio = e.select(nothing, zero, e.div(small, large))
    scale = e.add(large, e.mul(small, ratio))
    scale = e.select(nothing, e.abs(large), scale)
    p, q = e.select(swap, ai, ar), e.select(swap, ar, ai)
    real = e.div(e.add(p, e.mul(q, ratio)), scale)
    imag = e.sub(q, e.mul(p, ratio))
    return e.complex(real, e.div(e.select(swap, e.neg(imag), imag), scale))


def eq(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:
    """a == b."""
    (ar, ai), (br, bi) = parts(a), parts(b)
    return e.logical_and(e.eq(ar, br), e.eq(ai, bi))


def magnitude(e: Emitter, v: SimdValue) -> SimdValue:
    """|v|: in float64 for complex64, else scaled by the larger part."""
    real, imag = parts(v)
    infinite = e.logical_or(e.isinf(real), e.isinf(imag))
    if v.dtype == "complex64":
        x, y = e.cast(real, "float64"), e.cast(imag, "float64")
        result = e.cast(e.sqrt(e.add(e.mul(x, x), e.mul(y, y))), "float32")
    else:
        result = _scaled_magnitude(e, e.abs(real), e.abs(imag))
    return e.select(infinite, e.constant(float("inf"), real.dtype), result)


def _scaled_magnitude(e: Emitter, x: SimdValue, y: SimdValue) -> SimdValue:
    huge, tiny = e.constant(2.0**500, x.dtype), e.constant(2.0**-500, x.dtype)
    one, larger = e.constant(1, x.dtype), e.maximum(x, y)
    up, down = e.constant(2.0**600, x.dtype), e.constant(2.0**-600, x.dtype)
    factor = e.select(e.gt(larger, huge), down, e.select(e.lt(larger, tiny), up, one))
    inverse = e.select(e.gt(larger, huge), up, e.select(e.lt(larger, tiny), down, one))
    x, y = e.mul(x, factor), e.mul(y, factor)
    return e.mul(e.sqrt(e.fma(x, x, e.mul(y, y))), inverse)


def sqrt(e: Emitter, v: SimdValue) -> SimdValue:
    """The square root with a real part >= 0."""
    real, imag = parts(v)
    half, zero = e.constant(0.5, real.dtype), e.constant(0, real.dtype)
    size = e.add(e.mul(magnitude(e, v), half), e.mul(e.abs(real), half))
    main = e.sqrt(size)
    other = e.select(e.eq(main, zero), zero, e.div(e.mul(e.abs(imag), half), main))
    left = e.lt(real, zero)
    main, other = e.select(left, other, main), e.select(left, main, other)
    endless, infinity = e.isinf(imag), e.constant(float("inf"), imag.dtype)
    main, other = e.select(endless, infinity, main), e.select(endless, infinity, other)
    return e.complex(main, copysign(e, other, imag))


def copysign(e: Emitter, size: SimdValue, sign: SimdValue) -> SimdValue:
    """The size of the one number with the sign of the other."""
    return SimdValue(size.dtype, e.intrinsic("copysign", size.value, sign.value))


def sign(e: Emitter, v: SimdValue) -> SimdValue:
    """v / |v|, and 0 for 0."""
    size = magnitude(e, v)
    nothing, one = e.eq(size, e.constant(0, size.dtype)), e.constant(1, size.dtype)
    safe = e.select(nothing, one, size)
    return e.complex(*(e.div(part, safe) for part in parts(v)))


def exp(e: Emitter, v: SimdValue) -> SimdValue:
    """exp(re) * (cos(im) + i sin(im)); of an infinite re the size, whatever im is."""
    real, imag = parts(v)
    size, zero = e.elementary("exp", real), e.constant(0, real.dtype)
    flat = e.eq(imag, zero)
    sine = e.select(flat, imag, e.mul(size, e.elementary("sin", imag)))
    cosine = e.select(flat, size, e.mul(size, e.elementary("cos", imag)))
    lost = e.logical_and(e.isinf(real), e.logical_not(e.isfinite(imag)))
    sine = e.select(e.logical_and(lost, e.eq(size, zero)), zero, sine)
    return e.complex(e.select(lost, size, cosine), sine)


def log(e: Emitter, v: SimdValue) -> SimdValue:
    """log|v| + i angle(v); near the unit circle the size by the real log1p of |v|^2 - 1."""
    real, imag = parts(v)
    one, half = e.constant(1, real.dtype), e.constant(0.5, real.dtype)
    across = e.lt(e.abs(real), e.abs(imag))
    large, small = (e.abs(e.select(across, *pair)) for pair in ((imag, real), (real, imag)))
    close = e.logical_and(e.gt(large, half), e.lt(large, e.constant(2, real.dtype)))
    more = e.fma(e.sub(large, one), e.add(large, one), e.mul(small, small))
    near = e.mul(half, e.elementary("log1p", e.select(close, more, one)))
    size = e.select(close, near, e.elementary("log", magnitude(e, v)))
    return e.complex(size, e.elementary("atan2", imag, real))


def _scaled(e: Emitter, v: SimdValue, factor: float) -> SimdValue:
    return e.complex(*(e.mul(part, e.constant(factor, part.dtype)) for part in parts(v)))


def _log_to_base(factor: float) -> Callable[[Emitter, SimdValue], SimdValue]:
    return lambda e, v: _scaled(e, log(e, v), factor)


def pow(e: Emitter, a: SimdValue, b: SimdValue) -> SimdValue:  # noqa: A001
    """exp(b log a); 1 where b is 0, 0 where only a is."""
    zero, one = e.constant(0, a.dtype), e.constant(1, a.dtype)
    power = exp(e, mul(e, b, log(e, a)))
    return e.select(eq(e, b, zero), one, e.select(eq(e, a, zero), zero, power))


def sinh(e: Emitter, v: SimdValue) -> SimdValue:
    """sinh(re) cos(im) + i cosh(re) sin(im); a part that is 0 stays 0 if the other is infinite or nan."""
    real, imag = parts(v)
    zero, sinh_ = e.constant(0, real.dtype), e.elementary("sinh", real)
    main = e.mul(sinh_, e.elementary("cos", imag))
    other = e.mul(e.elementary("cosh", real), e.elementary("sin", imag))
    known = e.logical_or(e.isinf(real), e.eq(real, zero))
    lost = e.logical_and(known, e.logical_not(e.isfinite(imag)))
    main = e.select(lost, sinh_, main)
    return e.complex(main, e.select(e.eq(imag, zero), imag, other))


def cosh(e: Emitter, v: SimdValue) -> SimdValue:
    """cosh(re) cos(im) + i sinh(re) sin(im); a part that is 0 stays 0 if the other is infinite or nan."""
    real, imag = parts(v)
    zero, one = e.constant(0, real.dtype), e.constant(1, real.dtype)
    cosh_ = e.elementary("cosh", real)
    main = e.mul(cosh_, e.elementary("cos", imag))
    other = e.mul(e.elementary("sinh", real), e.elementary("sin", imag))
    lost = e.logical_and(e.isinf(real), e.logical_not(e.isfinite(imag)))
    main = e.select(e.logical_or(lost, e.eq(imag, zero)), cosh_, main)
    flat = e.logical_or(e.eq(real, zero), e.eq(imag, zero))
    signed = e.mul(copysign(e, zero, real), copysign(e, one, imag))
    return e.complex(main, e.select(flat, signed, other))


def sin(e: Emitter, v: SimdValue) -> SimdValue:
    """sinh(i v) / i."""
    return over_i(e, sinh(e, times_i(e, v)))


def cos(e: Emitter, v: SimdValue) -> SimdValue:
    """cosh(i v)."""
    return cosh(e, times_i(e, v))


def tanh(e: Emitter, v: SimdValue) -> SimdValue:
    """With t = tanh(re), u = tan(im): t (1 + u u) / (1 + t t u u) + i u / cosh(re)^2 / (1 + t t u u)."""
    real, imag = parts(v)
    zero, one = e.constant(0, real.dtype), e.constant(1, real.dtype)
    t, u = e.elementary("tanh", real), e.elementary("tan", imag)
    secant = e.div(one, e.elementary("cosh", real))
    below = e.fma(e.mul(t, u), e.mul(t, u), one)
    main = e.div(e.mul(t, e.fma(u, u, one)), below)
    other = e.mul(e.div(u, below), e.mul(secant, secant))
    endless = e.isinf(real)
    main = e.select(e.logical_or(endless, e.eq(real, zero)), t, main)
    lost = e.logical_and(endless, e.logical_not(e.isfinite(imag)))
    return e.complex(main, e.select(lost, zero, e.select(e.eq(imag, zero), imag, other)))


def times_i(e: Emitter, v: SimdValue) -> SimdValue:
    real, imag = parts(v)
    return e.complex(e.neg(imag), real)


def over_i(e: Emitter, v: SimdValue) -> SimdValue:
    real, imag = parts(v)
    return e.complex(imag, e.neg(real))


def tan(e: Emitter, v: SimdValue) -> SimdValue:
    """tanh(i v) / i."""
    return over_i(e, tanh(e, times_i(e, v)))


def sigmoid(e: Emitter, v: SimdValue) -> SimdValue:
    """1 / (1 + exp(-v))."""
    one = e.constant(1, v.dtype)
    return div(e, one, add(e, one, exp(e, e.neg(v))))


def expm1(e: Emitter, v: SimdValue) -> SimdValue:
    """expm1(re) cos(im) - 2 sin(im / 2)^2 + i exp(re) sin(im): nothing cancels near 0."""
    real, imag = parts(v)
    power, small = exp(e, v), e.elementary("expm1", real)
    half = e.elementary("sin", e.mul(imag, e.constant(0.5, imag.dtype)))
    taken = e.mul(e.constant(2, imag.dtype), e.mul(half, half))
    near = e.sub(e.mul(small, e.elementary("cos", imag)), taken)
    near = e.select(e.eq(imag, e.constant(0, imag.dtype)), small, near)
    main, other = parts(power)
    far = e.logical_or(e.isinf(real), e.logical_not(e.isfinite(imag)))
    return e.complex(e.select(far, e.sub(main, e.constant(1, main.dtype)), near), other)


def log1p(e: Emitter, v: SimdValue) -> SimdValue:
    """log(1 + v); near 0 the size by the real log1p of what it adds to 1."""
    real, imag = parts(v)
    one, two = e.constant(1, real.dtype), e.constant(2, real.dtype)
    half = e.constant(0.5, real.dtype)
    whole = e.complex(e.add(one, real), imag)
    inside = e.logical_and(e.lt(e.abs(real), half), e.lt(e.abs(imag), half))
    added = e.fma(imag, imag, e.mul(real, e.add(two, real)))
    near = e.mul(half, e.elementary("log1p", e.select(inside, added, real)))
    far, angle = parts(log(e, whole))
    return e.complex(e.select(inside, near, far), angle)


def exp2(e: Emitter, v: SimdValue) -> SimdValue:
    """exp(v log 2)."""
    return exp(e, _scaled(e, v, 0.6931471805599453))


FUNCTIONS: dict[str, Callable[..., SimdValue]] = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log2": _log_to_base(1.4426950408889634),
    "log10": _log_to_base(0.4342944819032518),
    "log1p": log1p,
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "sigmoid": sigmoid,
}
