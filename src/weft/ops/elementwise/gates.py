"""Rows of gates: products with a sigmoid, and what their derivatives are made of.

A recurrent cell is a handful of these, where sigmoid, tanh, their slopes and the products between them would be some
thirty nodes for each time: what a step of small cells costs goes by the node. A kernel computes each sigmoid and each
tanh of one value once, whichever rows of it ask (`weft.engine.devices.cpu.elementwise.gated`); what the derivatives
need of them is computed again, and not kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.ops.primitives import elementwise as call
from weft.ops.registry import Rule, define_elementwise

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.frontend.tensor import Tensor


def _gate_op(name: str, operands: str, reference: Rule, vjp: dict[str, Rule]) -> None:
    domain = "real " * len(operands.split())
    define_elementwise(name, operands, reference, domain, vjp, dtypes="float")


def _sigmoid_numpy(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


def _slope_numpy(x: Array) -> Any:
    s = _sigmoid_numpy(x)
    return s * (1 - s)


def _bend(gate: Tensor) -> Any:
    """The second derivative of the sigmoid."""
    s = call("sigmoid", gate)
    return s * (1 - s) * (1 - 2 * s)


def _flatness(x: Tensor) -> Any:
    """The derivative of tanh."""
    return 1 - call("square", call("tanh", x))


_gate_op(
    "sigmoid_mul",
    "gate other",
    lambda gate, other: _sigmoid_numpy(gate) * other,
    {
        "gate": lambda g, gate, other: call("sigmoid_mul_by_gate", g, gate, other),
        "other": lambda g, gate: call("sigmoid_mul", gate, g),
    },
)
_gate_op(
    "sigmoid_mul_tanh",
    "gate other",
    lambda gate, other: _sigmoid_numpy(gate) * np.tanh(other),
    {
        "gate": lambda g, gate, other: call("sigmoid_mul_tanh_by_gate", g, gate, other),
        "other": lambda g, gate, other: call("sigmoid_mul_tanh_by_other", g, gate, other),
    },
)
_gate_op(
    "sigmoid_mul_by_gate",
    "factor gate other",
    lambda factor, gate, other: factor * other * _slope_numpy(gate),
    {
        "factor": lambda g, gate, other: call("sigmoid_mul_by_gate", g, gate, other),
        "gate": lambda g, factor, gate, other: g * factor * other * _bend(gate),
        "other": lambda g, factor, gate: call("sigmoid_mul_by_gate", g, gate, factor),
    },
)
_gate_op(
    "sigmoid_mul_tanh_by_gate",
    "factor gate other",
    lambda factor, gate, other: factor * np.tanh(other) * _slope_numpy(gate),
    {
        "factor": lambda g, gate, other: call("sigmoid_mul_tanh_by_gate", g, gate, other),
        "gate": lambda g, factor, gate, other: g * factor * call("tanh", other) * _bend(gate),
        "other": lambda g, factor, gate, other: (
            call("sigmoid_mul_by_gate", g, gate, factor) * _flatness(other)
        ),
    },
)
_gate_op(
    "sigmoid_mul_tanh_by_other",
    "factor gate other",
    lambda factor, gate, other: factor * _sigmoid_numpy(gate) * (1 - np.square(np.tanh(other))),
    {
        "factor": lambda g, gate, other: call("sigmoid_mul_tanh_by_other", g, gate, other),
        "gate": lambda g, factor, gate, other: (
            call("sigmoid_mul_by_gate", g, gate, factor) * _flatness(other)
        ),
        "other": lambda g, factor, gate, other: (
            call("sigmoid_mul_tanh_by_other", g, gate, other) * factor * (-2 * call("tanh", other))
        ),
    },
)
