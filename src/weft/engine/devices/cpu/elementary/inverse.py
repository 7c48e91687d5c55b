"""asin, acos, atan and atan2 in float64; float32 widens to them."""

from __future__ import annotations

from weft.engine.devices.cpu.elementary import coefficients as table
from weft.engine.devices.cpu.elementary.double_double import fast_sum
from weft.engine.devices.cpu.elementary.expressions import SimdExpr, fma, horner

PI = (float.fromhex("0x1.921fb54442d18p+1"), float.fromhex("0x1.1a62633145c07p-53"))
HALF_PI = (PI[0] / 2, PI[1] / 2)


def arctangent_of_ratio(smaller: SimdExpr, larger: SimdExpr) -> SimdExpr:
    """atan(smaller/larger) for 0 <= smaller <= larger."""
    t = smaller / larger
    z = t * t
    return fma(t * z, horner(z, table.ATAN_64), t)


def atan(x: SimdExpr) -> SimdExpr:
    size = x.magnitude()
    inverted = size > 1.0
    one = x.like(1.0)
    angle = arctangent_of_ratio(inverted.where(one, size), inverted.where(size, one))
    folded = HALF_PI[0] - (angle - HALF_PI[1])
    return inverted.where(folded, angle).with_sign_of(x)


def atan2(y: SimdExpr, x: SimdExpr) -> SimdExpr:
    """The angle of (x, y); signed zeros and infinities as IEEE 754 has them."""
    up, across = y.magnitude(), x.magnitude()
    inverted = up > across
    smaller, larger = inverted.where(across, up), inverted.where(up, across)
    # 0/0 is an angle of 0 and inf/inf one of pi/4.
    equal = up.equals(across)
    smaller = equal.where((up > 0.0).where(x.like(1.0), 0.0), smaller)
    angle = arctangent_of_ratio(smaller, equal.where(x.like(1.0), larger))
    angle = inverted.where(HALF_PI[0] - (angle - HALF_PI[1]), angle)
    left = x.bits() < 0
    angle = left.where(PI[0] - (angle - PI[1]), angle)
    # Where x is a nan the comparisons above are all false and may have lost it.
    return (y.is_nan() | x.is_nan()).where(x + y, angle.with_sign_of(y))


def arcsine_series(x: SimdExpr, z: SimdExpr) -> SimdExpr:
    """asin(x) - x for z = x*x <= 1/4."""
    return x * z * horner(z, table.ASIN_64)


def asin(x: SimdExpr) -> SimdExpr:
    """pi/2 - 2*asin(sqrt((1 - |x|)/2)) beyond 1/2."""
    size = x.magnitude()
    far = size > 0.5
    z = far.where(fma(size, -0.5, 0.5), size * size)
    root = far.where(z.square_root(), size)
    tail = arcsine_series(root, z)
    base, rest = fast_sum(x.like(HALF_PI[0]), root * -2.0)
    folded = base + (rest + fma(tail, -2.0, HALF_PI[1]))
    return far.where(folded, root + tail).with_sign_of(x)


def acos(x: SimdExpr) -> SimdExpr:
    size = x.magnitude()
    far = size > 0.5
    z = far.where(fma(size, -0.5, 0.5), size * size)
    root = far.where(z.square_root(), x)
    tail = arcsine_series(root, z)
    near = HALF_PI[0] - (x - (HALF_PI[1] - tail))
    angle = (root + tail) * 2.0
    return far.where((x < 0.0).where(PI[0] - (angle - PI[1]), angle), near)
