"""Unevaluated sums (high, low) of two floats: error-free sums, products and quotients of lanes."""

from __future__ import annotations

from weft.engine.devices.cpu.elementary.expressions import Number, SimdExpr, fma

Pair = tuple[SimdExpr, SimdExpr]


def fast_sum(a: SimdExpr, b: SimdExpr) -> Pair:
    """a + b exactly, where |a| >= |b| or a is 0."""
    total = a + b
    return total, b - (total - a)


def two_sum(a: SimdExpr, b: SimdExpr | Number) -> Pair:
    """a + b exactly."""
    total = a + b
    b_part = total - a
    a_part = total - b_part
    other = b if isinstance(b, SimdExpr) else a.like(b)
    return total, (a - a_part) + (other - b_part)


def two_product(a: SimdExpr, b: SimdExpr | Number) -> Pair:
    """a * b exactly."""
    product = a * b
    return product, fma(a, b, -product)


def quotient(a: Pair, b: Pair) -> Pair:
    """a / b to nearly twice the precision."""
    high = a[0] / b[0]
    rest = fma(-high, b[0], a[0]) + fma(-high, b[1], a[1])
    return high, rest / b[0]


def square_root(a: Pair) -> Pair:
    """The root of a pair to nearly twice the precision; 0 has low part 0."""
    high = a[0].square_root()
    rest = fma(-high, high, a[0]) + a[1]
    return high, (high > 0.0).where(rest / (high + high), 0.0)
