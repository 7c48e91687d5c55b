# ruff: noqa: A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""The steps of recurrent cells, from the contributions of input and hidden state, and the check that these fit.

A program that runs a cell for each word of each sentence spends its time between the records: so this is compiled.
`layers` has the layers over whole sequences, `cells` single cells as modules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.weft.engine.frontend.recorder import record
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.primitive import Primitive

from weft._build.compiled import require
from weft.ops.composite.macro import macro
from weft.ops.registry import OPS

require(__name__, cython.compiled)

_GRU = cython.declare(Primitive, OPS["gru"])
_MEMORY = cython.declare(Primitive, OPS["lstm_memory"])
_OUTPUT = cython.declare(Primitive, OPS["lstm_output"])

# A cell maps (what the input gives, what the hidden state gives, state) to the new state; its first part is the output.
State = tuple[Any, ...]
Cell = Callable[[Any, Any, State], State]


def tanh_cell(of_input: Tensor, of_hidden: Tensor, state: State) -> State:
    """Elman's cell."""
    return ((of_input + of_hidden).tanh(),)


def relu_cell(of_input: Tensor, of_hidden: Tensor, state: State) -> State:
    """Elman's cell with relu."""
    return ((of_input + of_hidden).relu(),)


def lstm_cell(of_input: Tensor, of_hidden: Tensor, state: State) -> State:
    """One step of an LSTM: gates decide what a cell forgets, takes in and shows (Hochreiter and Schmidhuber, 1997)."""
    gates = of_input + of_hidden  # (n, 4h)
    memory = _macro(_MEMORY, (gates, state[1]), state[1])  # (n, 4h), (n, h) -> (n, h)
    return _macro(_OUTPUT, (gates, memory), memory), memory


def gru_cell(of_input: object, of_hidden: object, state: State) -> State:
    """One step of a GRU, with the reset gate after the product (Cho et al., 2014)."""
    hidden = state[0]
    return (
        _macro(_GRU, (of_input, of_hidden, hidden), hidden),
    )  # (n, 3h), (n, 3h), (n, h) -> (n, h)


@cython.cfunc
def _macro(op: Primitive, operands: tuple[Tensor, ...], like: Tensor) -> Any:
    """A macro whose result has the shape of one of its operands."""
    for operand in operands:
        x: Tensor = operand
        if x._dtype is not like._dtype or x.strides is not None:
            return macro(op.name, *operands)
    return record(op, operands, None, like._shape, like._dtype)


# The cell of every mode, and how many gates it has.
CELLS: dict[str, tuple[int, Cell]] = {
    "RNN_TANH": (1, tanh_cell),
    "RNN_RELU": (1, relu_cell),
    "LSTM": (4, lstm_cell),
    "GRU": (3, gru_cell),
}


def fits(
    input: Tensor,
    states: Tensor | tuple[Tensor | None, ...] | None,
    input_size: int,
    hidden_size: int,
) -> bool:
    """True if an input is (input_size) or (batch, input_size), and each of the states in a tuple goes with it."""
    if not isinstance(input, Tensor) or type(states) is not tuple:
        return False
    shape = cython.cast(Tensor, input)._shape
    rank: cython.Py_ssize_t = len(shape)
    if not 0 < rank < 3 or shape[rank - 1] != input_size:
        return False
    for state in cython.cast(tuple, states):
        if not isinstance(state, Tensor):
            return False
        own = cython.cast(Tensor, state)._shape
        if len(own) != rank or own[rank - 1] != hidden_size or (rank == 2 and own[0] != shape[0]):
            return False
    return True
