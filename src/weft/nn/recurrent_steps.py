"""What recurrent layers do at one time: the cells, and walks over steps of falling numbers of sequences.

In: what the input gives, and a state. Out: the new state. The layers over whole sequences stand in `recurrent`, single
cells as modules in `rnn`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import weft
from weft import Tensor
from weft.ops.macro import macro

# A cell maps (what the input gives, what the hidden state gives, state) to the new state; its first part is the output.
State = tuple[Tensor, ...]
Cell = Callable[[Tensor, Tensor, State], State]


def tanh_cell(of_input: Tensor, of_hidden: Tensor, state: State) -> State:
    """Elman's cell."""
    return ((of_input + of_hidden).tanh(),)


def relu_cell(of_input: Tensor, of_hidden: Tensor, state: State) -> State:
    """Elman's cell with relu."""
    return ((of_input + of_hidden).relu(),)


def lstm_cell(of_input: Tensor, of_hidden: Tensor, state: State) -> State:
    """Hochreiter and Schmidhuber (1997), with forget gate."""
    gates = of_input + of_hidden  # (n, 4h)
    memory = macro("lstm_memory", gates, state[1])  # (n, 4h), (n, h) -> (n, h)
    return macro("lstm_output", gates, memory), memory


def gru_cell(of_input: Tensor, of_hidden: Tensor, state: State) -> State:
    """Cho et al. (2014), with the reset gate after the product."""
    return (macro("gru", of_input, of_hidden, state[0]),)  # (n, 3h), (n, 3h), (n, h) -> (n, h)


# The cell of every mode, and how many gates it has.
CELLS: dict[str, tuple[int, Cell]] = {
    "RNN_TANH": (1, tanh_cell),
    "RNN_RELU": (1, relu_cell),
    "LSTM": (4, lstm_cell),
    "GRU": (3, gru_cell),
}

Step = Callable[[Tensor, State], State]


def forwards(step: Step, parts: Sequence[Tensor], state: State) -> tuple[list[Tensor], State]:
    """Steps of falling numbers of sequences: those that have ended keep their state. Out: outputs, final state."""
    outputs, ended = [], []
    for part in parts:
        have = part.shape[0]
        if have < state[0].shape[0]:
            ended.append(tuple(one[have:] for one in state))
            state = tuple(one[:have] for one in state)
        state = step(part, state)
        outputs.append(state[0])
    return outputs, _one_below_the_other([state, *reversed(ended)])


def backwards(step: Step, parts: Sequence[Tensor], start: State) -> tuple[list[Tensor], State]:
    """The same from the last step on: sequences begin with their first state where they end."""
    outputs: list[Tensor] = []
    state, have = tuple(one[:0] for one in start), 0
    for part in reversed(parts):
        now, have = have, part.shape[0]
        if have > now:
            begun = tuple(one[now:have] for one in start)
            state = _one_below_the_other([state, begun] if now else [begun])
        state = step(part, state)
        outputs.append(state[0])
    rest = tuple(one[have:] for one in start)
    return outputs[::-1], _one_below_the_other([state, rest] if rest[0].shape[0] else [state])


def _one_below_the_other(states: list[State]) -> State:
    if len(states) == 1:
        return states[0]
    return tuple(weft.cat(parts) for parts in zip(*states, strict=True))
