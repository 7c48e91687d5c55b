"""RNN, LSTM and GRU: stacked, optionally bidirectional recurrent layers over whole sequences.

In: a sequence (time, batch, features), or batch first, or without batch; sequences of different lengths as a
PackedSequence or a ragged tensor (batch, j, features). Out: the outputs of the last layer at every time, in the same
form, and the final states. Each layer is a plain loop over time; nothing here is specific to a length.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft
from weft import Tensor
from weft.errors import ArgumentError, NotDefinedError, ShapeError
from weft.nn import functional as F
from weft.nn import init
from weft.nn.module import Module
from weft.nn.parameter import Parameter
from weft.nn.utils.rnn import PackedSequence, Steps
from weft.ops.primitives import take

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
    i, f, g, o = (of_input + of_hidden).chunk(4, -1)  # (n, 4h) -> 4 x (n, h)
    cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def gru_cell(of_input: Tensor, of_hidden: Tensor, state: State) -> State:
    """Cho et al. (2014), with the reset gate after the product."""
    r_input, z_input, n_input = of_input.chunk(3, -1)  # (n, 3h) -> 3 x (n, h)
    r_hidden, z_hidden, n_hidden = of_hidden.chunk(3, -1)
    r, z = (r_input + r_hidden).sigmoid(), (z_input + z_hidden).sigmoid()
    n = (n_input + r * n_hidden).tanh()
    return ((1 - z) * n + z * state[0],)


Step = Callable[[Tensor, State], State]


def _forwards(step: Step, parts: Sequence[Tensor], state: State) -> tuple[list[Tensor], State]:
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


def _backwards(step: Step, parts: Sequence[Tensor], start: State) -> tuple[list[Tensor], State]:
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


class _Recurrent(Module):
    """What the three layers share: weights by layer and direction, shapes, the loops."""

    gates: int
    states = 1
    cell: Cell

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if hidden_size <= 0:
            raise ArgumentError(
                "hidden_size must be greater than zero",
                expected="hidden_size > 0",
                got=repr(hidden_size),
                fix="pass the size of the state",
            )
        if num_layers <= 0:
            raise ArgumentError(
                "num_layers must be greater than zero",
                expected="num_layers > 0",
                got=repr(num_layers),
                fix="use num_layers=1",
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={num_layers}",
                stacklevel=3,
            )
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional = bidirectional
        for number, suffix in enumerate(self._suffixes()):
            first = number < self._directions
            width = input_size if first else hidden_size * self._directions
            self._add_weights(suffix, width, device=device, dtype=dtype)
        self.reset_parameters()

    def _add_weights(self, suffix: str, width: int, **options: Any) -> None:
        rows = self.gates * self.hidden_size
        shapes = {"weight_ih": (rows, width), "weight_hh": (rows, self.hidden_size)}
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}  # type: ignore[dict-item]
        for name, shape in shapes.items():
            setattr(self, f"{name}_{suffix}", Parameter(weft.empty(shape, **options)))

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self) -> list[str]:
        """l0, l0_reverse, l1, ...: layer by layer, forwards before backwards."""
        directions = ("", "_reverse")[: self._directions]
        pairs = itertools.product(range(self.num_layers), directions)
        return [f"l{layer}{direction}" for layer, direction in pairs]

    def reset_parameters(self) -> None:
        """Draw new weights."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _check(self, input: Tensor) -> None:
        name = type(self).__name__
        if input.dim() not in (2, 3):
            raise ArgumentError(
                f"{name}: Expected input to be 2D or 3D, got {input.dim()}D instead",
                expected="(length, size), or (length, batch, size)",
                got=str(list(input.shape)),
                fix="unsqueeze or reshape the input",
            )
        self._check_width(input)

    def _check_width(self, input: Tensor) -> None:
        if input.shape[-1] != self.input_size:
            raise ShapeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, "
                f"got {input.shape[-1]}",
                expected=f"a last dimension of {self.input_size}",
                got=str(list(input.shape)),
                fix="build the layer with this input_size",
            )

    def _initial(self, hx: Any, batch: int, input: Tensor, alone: bool = False) -> list[Tensor]:
        """The first states, each (layers * directions, batch, hidden)."""
        shape = (self.num_layers * self._directions, batch, self.hidden_size)
        if hx is None:
            return [weft.zeros(shape, dtype=input.dtype)] * self.states
        given = list(hx) if self.states > 1 else [hx]
        given = [state.unsqueeze(1) if alone else state for state in given]
        for state in given:
            if tuple(state.shape) != shape:
                raise ShapeError(
                    f"Expected hidden size {shape}, got {list(state.shape)}",
                    expected=f"a state of shape {list(shape)}",
                    got=str(list(state.shape)),
                    fix="leave hx out to begin with zeros",
                )
        return given

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        """Outputs of the last layer, (time, batch, directions * hidden), and the final states."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if getattr(input, "is_nested", False):
            return self._forward_nested(input, hx)
        self._check(input)
        alone = input.dim() == 2
        x = input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input
        x, last = self._layers(x, self._initial(hx, x.shape[1], input, alone), self._run)
        last = [state.squeeze(1) if alone else state for state in last]
        out = x.squeeze(1) if alone else x.transpose(0, 1) if self.batch_first else x
        return out, tuple(last) if self.states > 1 else last[0]

    def _layers(
        self, x: Tensor, initial: list[Tensor], run: Callable[..., tuple[Tensor, State]]
    ) -> tuple[Tensor, list[Tensor]]:
        """All layers over entries in some order, which `run` takes one layer in one direction through."""
        finals: list[State] = []
        for layer in range(self.num_layers):
            if layer > 0 and self.dropout > 0:
                x = F.dropout(x, self.dropout, self.training)
            sides = []
            for direction in range(self._directions):
                number = layer * self._directions + direction
                start = tuple(state[number] for state in initial)
                outputs, final = run(x, start, self._suffixes()[number], direction == 1)
                sides.append(outputs)
                finals.append(final)
            x = sides[0] if len(sides) == 1 else weft.cat(sides, -1)
        return x, [weft.stack(parts) for parts in zip(*finals, strict=True)]

    # -- sequences of different lengths ------------------------------------------------------------

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        """A packed batch: the outputs packed in the same way, the states in the order of the batch."""
        self._check_width(input.data)
        sizes = input.batch_sizes.tolist()
        initial = self._initial(hx, sizes[0], input.data)
        if input.sorted_indices is not None:
            initial = [state.index_select(1, input.sorted_indices) for state in initial]
        run = functools.partial(self._run_packed, sizes=sizes)
        data, last = self._layers(input.data, initial, run)
        if input.unsorted_indices is not None:
            last = [state.index_select(1, input.unsorted_indices) for state in last]
        return PackedSequence(data, *input[1:]), tuple(last) if self.states > 1 else last[0]

    def _forward_nested(self, input: Any, hx: Any) -> tuple[Any, Any]:
        """A ragged batch (batch, j, in), of which items may be empty: these keep the states that they begin with."""
        if input.ndim != 3 or input.dims != (1,):
            raise NotDefinedError(
                f"{type(self).__name__} of a ragged tensor of shape {list(input.shape)}",
                expected="(batch, j, features)",
                got=f"ragged dimensions {list(input.dims)} of {input.ndim}",
                fix="transpose the ragged dimension to place 1",
            )
        self._check_width(input.packed)
        rows = input.rows
        steps = Steps.of(rows.lengths)
        places = rows.offsets[steps.sequence] + steps.place
        back = np.empty_like(places)
        back[places] = np.arange(len(places))
        order, inverse = weft.from_numpy(steps.order), weft.from_numpy(np.argsort(steps.order))
        initial = self._initial(hx, len(input), input.packed)
        initial = [take(state, 1, order) for state in initial]
        run = functools.partial(self._run_packed, sizes=steps.sizes.tolist())
        data, last = self._layers(take(input.packed, 0, weft.from_numpy(places)), initial, run)
        last = [take(state, 1, inverse) for state in last]
        out = input.like(take(data, 0, weft.from_numpy(back)))
        return out, tuple(last) if self.states > 1 else last[0]

    def _run_packed(
        self, x: Tensor, state: State, suffix: str, backwards: bool, sizes: list[int]
    ) -> tuple[Tensor, State]:
        """One layer in one direction over packed entries: (entries, in) -> (entries, hidden). The first sizes[t]
        sequences have step t."""
        if not sizes:
            return x.new_zeros(0, self.hidden_size), state
        of_input, weight_hh, bias_hh = self._projected(x, suffix)

        def step(part: Tensor, moving: State) -> State:
            return self._cell()(part, F.linear(moving[0], weight_hh, bias_hh), moving)

        walk = _backwards if backwards else _forwards
        outputs, final = walk(step, of_input.split(sizes), state)
        return weft.cat(outputs), final

    # -- sequences of one length -------------------------------------------------------------------

    def _projected(self, x: Tensor, suffix: str) -> tuple[Tensor, Tensor, Tensor | None]:
        """What the input gives at all times, and the weights of the hidden state."""
        bias_ih, bias_hh = (
            (getattr(self, f"{name}_{suffix}") for name in ("bias_ih", "bias_hh"))
            if self.bias
            else (None, None)
        )
        of_input = F.linear(x, getattr(self, f"weight_ih_{suffix}"), bias_ih)
        return of_input, getattr(self, f"weight_hh_{suffix}"), bias_hh

    def _run(self, x: Tensor, state: State, suffix: str, backwards: bool) -> tuple[Tensor, State]:
        """One layer in one direction: (t, n, in) -> (t, n, hidden) and the final state."""
        of_input, weight_hh, bias_hh = self._projected(x, suffix)
        times = range(x.shape[0])
        outputs = []
        for time in reversed(times) if backwards else times:
            of_hidden = F.linear(state[0], weight_hh, bias_hh)
            state = self._cell()(of_input[time], of_hidden, state)
            outputs.append(state[0])
        return weft.stack(outputs[::-1] if backwards else outputs), state

    def _cell(self) -> Cell:
        return type(self).cell

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if not self.bias:
            text += f", bias={self.bias}"
        if self.batch_first:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        if self.bidirectional:
            text += f", bidirectional={self.bidirectional}"
        return text


class RNN(_Recurrent):
    """Elman's recurrent network."""

    gates = 1

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **kwargs: Any) -> None:
        if len(args) > 3:  # PyTorch's fourth position is the nonlinearity
            args, nonlinearity = args[:3] + args[4:], args[3]
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.",
                expected="'tanh' or 'relu'",
                got=repr(nonlinearity),
                fix="use nonlinearity='tanh'",
            )
        super().__init__(*args, **kwargs)
        self.nonlinearity = nonlinearity

    def _cell(self) -> Cell:
        return tanh_cell if self.nonlinearity == "tanh" else relu_cell


class LSTM(_Recurrent):
    """Long short-term memory; states are pairs (hidden, cell)."""

    gates = 4
    states = 2
    cell = staticmethod(lstm_cell)


class GRU(_Recurrent):
    """Gated recurrent units."""

    gates = 3
    cell = staticmethod(gru_cell)
