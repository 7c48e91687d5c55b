"""Gated products (a value times a sigmoid), and the parts of their derivatives, on lanes of floats.

A function takes the `SimdValue` of a gate, before its sigmoid, and of the gated value, and returns a product. Every
step rounds as the primitive of its name. A sigmoid or tanh of one value is computed once in a kernel (`Emitter.once`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engine.devices.cpu.llvm.simd_value import SimdValue

if TYPE_CHECKING:
    from weft.engine.devices.cpu.elementwise.emitter import Emitter


def sigmoid_mul(e: Emitter, gate: SimdValue, other: SimdValue) -> SimdValue:
    """sigmoid(gate) * other"""
    return e.mul(e.once("sigmoid", gate), other)


def sigmoid_mul_tanh(e: Emitter, gate: SimdValue, other: SimdValue) -> SimdValue:
    """sigmoid(gate) * tanh(other)"""
    return e.mul(e.once("sigmoid", gate), e.once("tanh", other))


def sigmoid_mul_by_gate(
    e: Emitter, factor: SimdValue, gate: SimdValue, other: SimdValue
) -> SimdValue:
    """factor * other * the slope of the sigmoid at the gate"""
    return e.mul(e.mul(factor, other), _slope(e, gate))


def sigmoid_mul_tanh_by_gate(
    e: Emitter, factor: SimdValue, gate: SimdValue, other: SimdValue
) -> SimdValue:
    """factor * tanh(other) * the slope of the sigmoid at the gate"""
    return sigmoid_mul_by_gate(e, factor, gate, e.once("tanh", other))


def sigmoid_mul_tanh_by_other(
    e: Emitter, factor: SimdValue, gate: SimdValue, other: SimdValue
) -> SimdValue:
    """factor * sigmoid(gate) * the slope of tanh at the other"""
    shown = e.once("tanh", other)
    slope = e.sub(e.constant(1, other.dtype), e.mul(shown, shown))
    return e.mul(e.mul(factor, e.once("sigmoid", gate)), slope)


def _slope(e: Emitter, gate: SimdValue) -> SimdValue:
    s = e.once("sigmoid", gate)
    return e.mul(s, e.sub(e.constant(1, gate.dtype), s))


METHODS = (
    sigmoid_mul,
    sigmoid_mul_tanh,
    sigmoid_mul_by_gate,
    sigmoid_mul_tanh_by_gate,
    sigmoid_mul_tanh_by_other,
)
