"""Inverse trigonometric and hyperbolic functions of complex numbers, by Kahan's formulas.

They work on pairs of real vectors. Square roots of 1 + v and 1 - v keep what a logarithm of v + sqrt(v v + 1) loses
near 0 and far from it; signs of zeros choose the side of a cut; infinities and nan give what annex G of C99 has.
Source: W. Kahan, Branch cuts for complex elementary functions (1987).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.engine.devices.cpu.elementwise.complex_arithmetic import (
    copysign,
    over_i,
    parts,
    sqrt,
    times_i,
)
from weft.engine.devices.cpu.llvm.simd_value import SimdValue

if TYPE_CHECKING:
    from weft.engine.devices.cpu.elementwise.emitter import Emitter

HALF_PI = 1.5707963267948966


def _roots(e: Emitter, v: SimdValue) -> tuple[SimdValue, SimdValue, SimdValue, SimdValue]:
    """The parts of sqrt(1 - v) and sqrt(1 + v)."""
    real, imag = parts(v)
    one = e.constant(1, real.dtype)
    below = sqrt(e, e.complex(e.sub(one, real), e.neg(imag)))
    above = sqrt(e, e.complex(e.add(one, real), imag))
    return *parts(below), *parts(above)


def _cross(e: Emitter, a: SimdValue, b: SimdValue, c: SimdValue, d: SimdValue) -> SimdValue:
    """a * b + c * d."""
    return e.add(e.mul(a, b), e.mul(c, d))


def asin(e: Emitter, v: SimdValue) -> SimdValue:
    """With p = sqrt(1 - v), q = sqrt(1 + v): atan2(re, Re(p q)) + i asinh(Im(conj(p) q))."""
    real, imag = parts(v)
    zero, infinity = e.constant(0, real.dtype), e.constant(float("inf"), real.dtype)
    p, p_imag, q, q_imag = _roots(e, v)
    angle = e.elementary("atan2", real, e.sub(e.mul(p, q), e.mul(p_imag, q_imag)))
    size = e.elementary("asinh", _cross(e, p, q_imag, e.neg(p_imag), q))
    endless = e.isinf(v)
    angle = e.select(endless, e.elementary("atan2", real, e.abs(imag)), angle)
    angle = e.select(e.eq(real, zero), real, angle)
    return e.complex(angle, e.select(endless, copysign(e, infinity, imag), size))


def acos(e: Emitter, v: SimdValue) -> SimdValue:
    """With p = sqrt(1 - v), q = sqrt(1 + v): 2 atan2(Re p, Re q) + i asinh(Im(conj(q) p))."""
    real, imag = parts(v)
    zero, infinity = e.constant(0, real.dtype), e.constant(float("inf"), real.dtype)
    p, p_imag, q, q_imag = _roots(e, v)
    angle = e.mul(e.constant(2, real.dtype), e.elementary("atan2", p, q))
    size = e.elementary("asinh", _cross(e, q, p_imag, e.neg(q_imag), p))
    endless = e.isinf(v)
    angle = e.select(endless, e.elementary("atan2", e.abs(imag), real), angle)
    upright = e.logical_and(e.eq(real, zero), e.isnan(imag))
    angle = e.select(upright, e.constant(HALF_PI, real.dtype), angle)
    return e.complex(angle, e.select(endless, copysign(e, infinity, e.neg(imag)), size))


def acosh(e: Emitter, v: SimdValue) -> SimdValue:
    """acos(v) turned by a quarter, to the side where the real part is positive."""
    angle, size = parts(acos(e, v))
    return e.complex(e.abs(size), copysign(e, angle, parts(v)[1]))


def asinh(e: Emitter, v: SimdValue) -> SimdValue:
    """asin(i v) / i."""
    return over_i(e, asin(e, times_i(e, v)))


def atanh(e: Emitter, v: SimdValue) -> SimdValue:
    """log1p(4 re / ((1 - re)^2 + im^2)) / 4 + i atan2(2 im, (1 - re)(1 + re) - im^2) / 2."""
    real, imag = parts(v)
    zero, one = e.constant(0, real.dtype), e.constant(1, real.dtype)
    x, four = e.abs(real), e.constant(4, real.dtype)
    away, square = e.sub(one, x), e.mul(imag, imag)
    grown = e.div(e.mul(four, x), e.fma(away, away, square))
    size = e.div(e.elementary("log1p", grown), four)
    across = e.sub(e.mul(away, e.add(one, x)), square)
    half = e.constant(0.5, real.dtype)
    angle = e.mul(half, e.elementary("atan2", e.add(imag, imag), across))
    endless = e.isinf(v)
    size = e.select(e.logical_or(endless, e.eq(x, zero)), zero, size)
    upright = copysign(e, e.constant(HALF_PI, real.dtype), imag)
    angle = e.select(endless, e.select(e.isnan(imag), imag, upright), angle)
    return e.complex(copysign(e, size, real), angle)


def atan(e: Emitter, v: SimdValue) -> SimdValue:
    """atanh(i v) / i."""
    return over_i(e, atanh(e, times_i(e, v)))


FUNCTIONS: dict[str, Callable[..., SimdValue]] = {
    "asin": asin,
    "acos": acos,
    "atan": atan,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
}
