"""Optimizer updates on lanes of floats.

A function takes the `SimdValue` of a running mean or a parameter and of its update, and returns its new value. Every
step rounds as the primitive of its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engine.devices.cpu.llvm.simd_value import SimdValue

if TYPE_CHECKING:
    from weft.engine.devices.cpu.elementwise.emitter import Emitter


def blend(e: Emitter, mean: SimdValue, value: SimdValue, share: SimdValue) -> SimdValue:
    """mean + (value - mean) * share"""
    return e.add(mean, e.mul(e.sub(value, mean), share))


def add_product(
    e: Emitter, total: SimdValue, one: SimdValue, other: SimdValue, factor: SimdValue
) -> SimdValue:
    """total + one * factor * other"""
    return e.add(total, e.mul(e.mul(one, factor), other))


def add_quotient(
    e: Emitter, total: SimdValue, above: SimdValue, below: SimdValue, factor: SimdValue
) -> SimdValue:
    """total + above / below * factor"""
    return e.add(total, e.mul(e.div(above, below), factor))


METHODS = (blend, add_product, add_quotient)
