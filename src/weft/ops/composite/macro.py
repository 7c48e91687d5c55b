# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Macro rows: operations that are one node until they are collected, and primitives from there on.

What costs by the node (recording, forming batches, the reverse walk) sees one; kernels, and what they share with those
of a derivative, are those of the primitives that `lower` records. The derivative is a rule, on all members of a batch
at once. Operands have one type; a leading batch dimension may be missing from some, as with elementwise rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft.engine.frontend.recorder import record
from weft.engine.ir.strides import contiguous_strides
from weft.ops.primitives import concat, embed, slice_axis
from weft.ops.primitives import elementwise as call
from weft.ops.registry import OPS, define

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.frontend.tensor import Tensor
    from weft.ops.registry import Domain, Rule


require(__name__, cython.compiled)


def define_macro(
    name: str,
    operands: str,
    reference: Rule,
    lower: Rule,
    vjp: dict[str, Rule],
    domain: Domain,
    shape: Rule,
    dtypes: str = "float",
    is_row_independent: Rule | None = None,
) -> None:
    """Define a macro; the parameters are those of `weft.ops.registry.define`."""
    define(
        name,
        kind="macro",
        operands=operands,
        reference=reference,
        vjp=vjp,
        lower=lower,
        batch=lambda p, shapes, flags, n: p,
        domain=domain,
        shape=shape,
        jvp_kind="rule",
        dtypes=dtypes,
        is_row_independent=is_row_independent,
    )


def macro(name: str, *operands: Tensor) -> Any:
    """Record a macro on tensors of one type; of several, the primitives, which convert."""
    op = OPS[name]
    dtype = operands[0]._dtype
    if any([x._dtype is not dtype or x.strides is not None for x in operands]):
        return op.lower(*operands, None)
    shape = op.shape(None, *[x._shape for x in operands])
    return record(op, operands, None, shape, dtype)


# -- cells of recurrent layers -----------------------------------------------------------------------------------------


def gate(gates: Tensor, number: int, width: int) -> Any:
    """(..., gates * width) -> (..., width)"""
    return slice_axis(gates, len(gates._shape) - 1, number * width, width)


def _sigmoid_numpy(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


def _memory_numpy(gates: Array, memory: Array, params: None) -> Any:
    i, f, g, _ = np.split(gates, 4, -1)
    return _sigmoid_numpy(f) * memory + _sigmoid_numpy(i) * np.tanh(g)


def _lower_memory(gates: Tensor, memory: Tensor, params: None) -> Any:
    i, f, g = _writing(gates, memory)
    return call("sigmoid_mul", f, memory) + call("sigmoid_mul_tanh", i, g)


def _writing(gates: Tensor, memory: Tensor) -> list[Any]:
    """Before their functions: how much an LSTM writes, how much it keeps, and what is written."""
    return [gate(gates, number, memory._shape[-1]) for number in range(3)]


def _vjp_written(g: Tensor, gates: Tensor, memory: Tensor) -> Any:
    i, f, new = _writing(gates, memory)
    parts = (
        call("sigmoid_mul_tanh_by_gate", g, i, new),
        call("sigmoid_mul_by_gate", g, f, memory),
        call("sigmoid_mul_tanh_by_other", g, i, new),
    )
    return _among_gates(parts, 0, 4)


def _among_gates(parts: tuple[Tensor, ...], first: int, count: int) -> Any:
    """Cotangents of neighbouring gates, zeros for the others."""
    width = parts[0]._shape[-1]
    shape = (*parts[0]._shape[:-1], count * width)
    joined = parts[0] if len(parts) == 1 else concat(parts, len(shape) - 1)
    return embed(joined, shape, first * width, contiguous_strides(shape))


define_macro(
    "lstm_memory",
    "gates memory",
    _memory_numpy,
    _lower_memory,
    {
        "gates": _vjp_written,
        "memory": lambda g, gates, memory: call(
            "sigmoid_mul", gate(gates, 1, memory._shape[-1]), g
        ),
    },
    [((3, 8), (3, 2), None)],
    lambda p, gates, memory: memory,
)


def _showing(gates: Tensor, memory: Tensor) -> Any:
    """The output gate of an LSTM, before its sigmoid."""
    return gate(gates, 3, memory._shape[-1])


def _vjp_shown(g: Tensor, gates: Tensor, memory: Tensor) -> Any:
    by_gate = call("sigmoid_mul_tanh_by_gate", g, _showing(gates, memory), memory)
    return _among_gates((by_gate,), 3, 4)


define_macro(
    "lstm_output",
    "gates memory",
    lambda gates, memory, params: _sigmoid_numpy(np.split(gates, 4, -1)[3]) * np.tanh(memory),
    lambda gates, memory, params: call("sigmoid_mul_tanh", _showing(gates, memory), memory),
    {
        "gates": _vjp_shown,
        "memory": lambda g, gates, memory: call(
            "sigmoid_mul_tanh_by_other", g, _showing(gates, memory), memory
        ),
    },
    [((3, 8), (3, 2), None)],
    lambda p, gates, memory: memory,
)


def _gru_numpy(of_input: Array, of_hidden: Array, hidden: Array, params: None) -> Any:
    inputs, states = np.split(of_input, 3, -1), np.split(of_hidden, 3, -1)
    r, z = (_sigmoid_numpy(a + b) for a, b in zip(inputs[:2], states[:2], strict=True))
    n = np.tanh(inputs[2] + r * states[2])
    return (hidden - n) * z + n


def _gru_gates(of_input: Tensor, of_hidden: Tensor, hidden: Tensor) -> tuple[Any, Any, Any, Any]:
    """Before their sigmoid, reset and update; the new value; what of it the hidden state gives."""
    width = hidden._shape[-1]
    r_input, z_input, n_input = [gate(of_input, number, width) for number in range(3)]
    r_hidden, z_hidden, n_hidden = [gate(of_hidden, number, width) for number in range(3)]
    r, z = r_input + r_hidden, z_input + z_hidden
    return r, z, call("tanh", n_input + call("sigmoid_mul", r, n_hidden)), n_hidden


def _lower_gru(of_input: Tensor, of_hidden: Tensor, hidden: Tensor, params: None) -> Any:
    _, z, n, _ = _gru_gates(of_input, of_hidden, hidden)
    return call("sigmoid_mul", z, hidden - n) + n


def _vjp_gru(g: Tensor, of_input: Tensor, of_hidden: Tensor, hidden: Tensor, through: bool) -> Any:
    """The cotangent of what the input gives, or (`through` the reset gate) of what the hidden state gives."""
    r, z, n, n_hidden = _gru_gates(of_input, of_hidden, hidden)
    of_new = (g - call("sigmoid_mul", z, g)) * (1 - call("square", n))
    of_reset = call("sigmoid_mul_by_gate", of_new, r, n_hidden)
    of_update = call("sigmoid_mul_by_gate", g, z, hidden - n)
    parts = (of_reset, of_update, call("sigmoid_mul", r, of_new) if through else of_new)
    return concat(parts, len(parts[0]._shape) - 1)


define_macro(
    "gru",
    "of_input of_hidden hidden",
    _gru_numpy,
    _lower_gru,
    {
        "of_input": lambda g, of_input, of_hidden, hidden: _vjp_gru(
            g, of_input, of_hidden, hidden, False
        ),
        "of_hidden": lambda g, of_input, of_hidden, hidden: _vjp_gru(
            g, of_input, of_hidden, hidden, True
        ),
        "hidden": lambda g, of_input, of_hidden, hidden: call(
            "sigmoid_mul", _gru_gates(of_input, of_hidden, hidden)[1], g
        ),
    },
    [((3, 6), (3, 6), (3, 2), None)],
    lambda p, of_input, of_hidden, hidden: hidden,
)
