"""Loops of recurrent layers over steps of falling numbers of sequences.

They take the contributions of the input at each step and a state, and return outputs and the final state. A step is
one of the `cell_steps`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import weft
from weft import Tensor
from weft.engine.ir.tape import turns
from weft.nn.recurrent.cell_steps import State

Step = Callable[[Tensor, State], State]


def forwards(step: Step, parts: Sequence[Tensor], state: State) -> tuple[list[Tensor], State]:
    """Run steps of falling numbers of sequences; those that have ended keep their state. Returns outputs and the final
    state."""
    outputs, ended = [], []
    for part in turns(parts):
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
    for part in turns(reversed(parts)):
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
