"""Complex arithmetic and functions over pairs of real vectors.

Products are the textbook formula with four multiplications, quotients Smith's; magnitudes and
square roots scale by powers of two, so that nothing overflows on the way.  The functions follow
their definitions through real exp, log, sin and cos.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .values import REAL, Lanes

if TYPE_CHECKING:
    from .emitter import Emitter


def _parts(v: Lanes) -> tuple[Lanes, Lanes]:
    real, imag = v.parts
    return Lanes(REAL[v.dtype], real), Lanes(REAL[v.dtype], imag)


def add(e: Emitter, a: Lanes, b: Lanes) -> Lanes:
    """a + b."""
    pairs = zip(_parts(a), _parts(b), strict=True)
    return e.complex(*(e.add(x, y) for x, y in pairs))


def sub(e: Emitter, a: Lanes, b: Lanes) -> Lanes:
    """a - b."""
    pairs = zip(_parts(a), _parts(b), strict=True)
    return e.complex(*(e.sub(x, y) for x, y in pairs))


def mul(e: Emitter, a: Lanes, b: Lanes) -> Lanes:
    """a * b."""
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    real = e.sub(e.mul(ar, br), e.mul(ai, bi))
    return e.complex(real, e.add(e.mul(ar, bi), e.mul(ai, br)))


def div(e: Emitter, a: Lanes, b: Lanes) -> Lanes:
    """a / b, by Smith's method; with b zero, each part of a divided by |b|."""
    (ar, ai), (br, bi) = _parts(a), _parts(b)
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


def eq(e: Emitter, a: Lanes, b: Lanes) -> Lanes:
    """a == b."""
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    return e.logical_and(e.eq(ar, br), e.eq(ai, bi))


def magnitude(e: Emitter, v: Lanes) -> Lanes:
    """|v|: in float64 for complex64, else scaled by the larger part."""
    real, imag = _parts(v)
    infinite = e.logical_or(e.isinf(real), e.isinf(imag))
    if v.dtype == "complex64":
        x, y = e.cast(real, "float64"), e.cast(imag, "float64")
        result = e.cast(e.sqrt(e.add(e.mul(x, x), e.mul(y, y))), "float32")
    else:
        result = _scaled_magnitude(e, e.abs(real), e.abs(imag))
    return e.select(infinite, e.constant(float("inf"), real.dtype), result)


def _scaled_magnitude(e: Emitter, x: Lanes, y: Lanes) -> Lanes:
    huge, tiny = e.constant(2.0**500, x.dtype), e.constant(2.0**-500, x.dtype)
    one, larger = e.constant(1, x.dtype), e.maximum(x, y)
    up, down = e.constant(2.0**600, x.dtype), e.constant(2.0**-600, x.dtype)
    factor = e.select(e.gt(larger, huge), down, e.select(e.lt(larger, tiny), up, one))
    inverse = e.select(e.gt(larger, huge), up, e.select(e.lt(larger, tiny), down, one))
    x, y = e.mul(x, factor), e.mul(y, factor)
    return e.mul(e.sqrt(e.fma(x, x, e.mul(y, y))), inverse)


def sqrt(e: Emitter, v: Lanes) -> Lanes:
    """The square root with a real part >= 0."""
    real, imag = _parts(v)
    half, zero = e.constant(0.5, real.dtype), e.constant(0, real.dtype)
    size = e.add(e.mul(magnitude(e, v), half), e.mul(e.abs(real), half))
    main = e.sqrt(size)
    other = e.select(e.eq(main, zero), zero, e.div(e.mul(e.abs(imag), half), main))
    left = e.lt(real, zero)
    imaginary = e.intrinsic("copysign", e.select(left, main, other).value, imag.value)
    return e.complex(e.select(left, other, main), Lanes(imag.dtype, imaginary))


def sign(e: Emitter, v: Lanes) -> Lanes:
    """v / |v|, and 0 for 0."""
    size = magnitude(e, v)
    nothing, one = e.eq(size, e.constant(0, size.dtype)), e.constant(1, size.dtype)
    safe = e.select(nothing, one, size)
    return e.complex(*(e.div(part, safe) for part in _parts(v)))


def exp(e: Emitter, v: Lanes) -> Lanes:
    """exp(re) * (cos(im) + i sin(im))."""
    real, imag = _parts(v)
    size, zero = e.elementary("exp", real), e.constant(0, real.dtype)
    flat = e.eq(imag, zero)
    sine = e.select(flat, imag, e.mul(size, e.elementary("sin", imag)))
    cosine = e.select(flat, size, e.mul(size, e.elementary("cos", imag)))
    return e.complex(cosine, sine)


def log(e: Emitter, v: Lanes) -> Lanes:
    """log|v| + i angle(v)."""
    real, imag = _parts(v)
    return e.complex(e.elementary("log", magnitude(e, v)), e.elementary("atan2", imag, real))


def _scaled(e: Emitter, v: Lanes, factor: float) -> Lanes:
    return e.complex(*(e.mul(part, e.constant(factor, part.dtype)) for part in _parts(v)))


def _log_to_base(factor: float) -> Callable[[Emitter, Lanes], Lanes]:
    return lambda e, v: _scaled(e, log(e, v), factor)


def pow(e: Emitter, a: Lanes, b: Lanes) -> Lanes:  # noqa: A001
    """exp(b log a); 1 where b is 0, 0 where only a is."""
    zero, one = e.constant(0, a.dtype), e.constant(1, a.dtype)
    power = exp(e, mul(e, b, log(e, a)))
    return e.select(eq(e, b, zero), one, e.select(eq(e, a, zero), zero, power))


def _hyperbolic(e: Emitter, x: Lanes) -> tuple[Lanes, Lanes]:
    return e.elementary("sinh", x), e.elementary("cosh", x)


def sin(e: Emitter, v: Lanes) -> Lanes:
    """sin(re) cosh(im) + i cos(re) sinh(im)."""
    real, imag = _parts(v)
    sine, cosine = e.elementary("sin", real), e.elementary("cos", real)
    sinh_, cosh_ = _hyperbolic(e, imag)
    return e.complex(e.mul(sine, cosh_), e.mul(cosine, sinh_))


def cos(e: Emitter, v: Lanes) -> Lanes:
    """cos(re) cosh(im) - i sin(re) sinh(im)."""
    real, imag = _parts(v)
    sine, cosine = e.elementary("sin", real), e.elementary("cos", real)
    sinh_, cosh_ = _hyperbolic(e, imag)
    return e.complex(e.mul(cosine, cosh_), e.neg(e.mul(sine, sinh_)))


def sinh(e: Emitter, v: Lanes) -> Lanes:
    """sinh(re) cos(im) + i cosh(re) sin(im)."""
    real, imag = _parts(v)
    sinh_, cosh_ = _hyperbolic(e, real)
    sine, cosine = e.elementary("sin", imag), e.elementary("cos", imag)
    return e.complex(e.mul(sinh_, cosine), e.mul(cosh_, sine))


def cosh(e: Emitter, v: Lanes) -> Lanes:
    """cosh(re) cos(im) + i sinh(re) sin(im)."""
    real, imag = _parts(v)
    sinh_, cosh_ = _hyperbolic(e, real)
    sine, cosine = e.elementary("sin", imag), e.elementary("cos", imag)
    return e.complex(e.mul(cosh_, cosine), e.mul(sinh_, sine))


def tanh(e: Emitter, v: Lanes) -> Lanes:
    """By tanh(re) and tan(im), without overflow: (t + i u) / (1 + i t u)."""
    real, imag = _parts(v)
    t, u = e.elementary("tanh", real), e.elementary("tan", imag)
    one = e.constant(1, real.dtype)
    return div(e, e.complex(t, u), e.complex(one, e.mul(t, u)))


def _times_i(e: Emitter, v: Lanes) -> Lanes:
    real, imag = _parts(v)
    return e.complex(e.neg(imag), real)


def _over_i(e: Emitter, v: Lanes) -> Lanes:
    real, imag = _parts(v)
    return e.complex(imag, e.neg(real))


def tan(e: Emitter, v: Lanes) -> Lanes:
    """tanh(i v) / i."""
    return _over_i(e, tanh(e, _times_i(e, v)))


def asinh(e: Emitter, v: Lanes) -> Lanes:
    """log(v + sqrt(v v + 1))."""
    one = e.constant(1, v.dtype)
    return log(e, add(e, v, sqrt(e, add(e, mul(e, v, v), one))))


def acosh(e: Emitter, v: Lanes) -> Lanes:
    """log(v + sqrt(v + 1) sqrt(v - 1))."""
    one = e.constant(1, v.dtype)
    return log(e, add(e, v, mul(e, sqrt(e, add(e, v, one)), sqrt(e, sub(e, v, one)))))


def atanh(e: Emitter, v: Lanes) -> Lanes:
    """(log(1 + v) - log(1 - v)) / 2."""
    one = e.constant(1, v.dtype)
    return _scaled(e, sub(e, log(e, add(e, one, v)), log(e, sub(e, one, v))), 0.5)


def asin(e: Emitter, v: Lanes) -> Lanes:
    """asinh(i v) / i."""
    return _over_i(e, asinh(e, _times_i(e, v)))


def acos(e: Emitter, v: Lanes) -> Lanes:
    """pi / 2 - asin(v)."""
    return sub(e, e.constant(1.5707963267948966, v.dtype), asin(e, v))


def atan(e: Emitter, v: Lanes) -> Lanes:
    """atanh(i v) / i."""
    return _over_i(e, atanh(e, _times_i(e, v)))


def sigmoid(e: Emitter, v: Lanes) -> Lanes:
    """1 / (1 + exp(-v))."""
    one = e.constant(1, v.dtype)
    return div(e, one, add(e, one, exp(e, e.neg(v))))


def expm1(e: Emitter, v: Lanes) -> Lanes:
    """exp(v) - 1."""
    return sub(e, exp(e, v), e.constant(1, v.dtype))


def log1p(e: Emitter, v: Lanes) -> Lanes:
    """log(1 + v)."""
    return log(e, add(e, e.constant(1, v.dtype), v))


def exp2(e: Emitter, v: Lanes) -> Lanes:
    """exp(v log 2)."""
    return exp(e, _scaled(e, v, 0.6931471805599453))


FUNCTIONS: dict[str, Callable[..., Lanes]] = {
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
    "asin": asin,
    "acos": acos,
    "atan": atan,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
    "sigmoid": sigmoid,
}
