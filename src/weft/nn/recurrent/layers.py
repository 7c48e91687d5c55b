"""RNN, LSTM and GRU: stacked, optionally bidirectional recurrent layers over whole sequences.

They take a sequence (time, batch, features), or batch first, or without batch, or sequences of different lengths as a
PackedSequence or a ragged tensor (batch, j, features). They return the outputs of the last layer at every step, in the
same form, and the final states. Each layer is a plain loop over steps; nothing here is specific to a length.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

import weft
from weft import Tensor
from weft._typing import DeviceLike
from weft.engine.ir.dtype import DType
from weft.engine.ir.tape import turns
from weft.errors import ArgumentError, NotDefinedError
from weft.nn import functional as F
from weft.nn import init
from weft.nn.module.module import Module
from weft.nn.parameter import Parameter
from weft.nn.recurrent.cell_steps import CELLS, State
from weft.nn.recurrent.checks import (
    check_entries,
    check_input,
    check_options,
    check_states,
    no_projection,
)
from weft.nn.recurrent.packed_steps import Step
from weft.nn.recurrent.packed_steps import backwards as walk_back
from weft.nn.recurrent.packed_steps import forwards as walk
from weft.nn.utils.rnn import PackedSequence, Steps
from weft.ops.any_size import as_one, is_for_any_size
from weft.ops.primitives import take

if TYPE_CHECKING:
    from weft._typing import FactoryOptions


class RNNBase(Module):
    """The common part of recurrent layers: weights by layer and direction, shapes, the loops.

    `mode` is "RNN_TANH", "RNN_RELU", "LSTM" or "GRU". Weights of layer k: `weight_ih_lk` (gates * hidden, in),
    `weight_hh_lk` (gates * hidden, out), `bias_ih_lk` and `bias_hh_lk` (gates * hidden), with projections
    `weight_hr_lk` (proj, hidden); out is proj with projections, else hidden. Names of the backward direction end in
    `_reverse`."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if mode not in CELLS:
            raise ArgumentError(
                f"Unrecognized RNN mode: {mode}",
                expected=", ".join(map(repr, CELLS)),
                got=repr(mode)[:80],
                fix="use nn.RNN, nn.LSTM or nn.GRU",
            )
        sizes = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
        flags = {"bias": bias, "batch_first": batch_first}
        check_options(sizes, flags, dropout, proj_size)
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={num_layers}",
                stacklevel=3,
            )
        self.mode = mode
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bool(bidirectional), proj_size
        for number, suffix in enumerate(self._suffixes()):
            first = number < self._directions
            width = input_size if first else self._width * self._directions
            self._add_weights(suffix, width, device=device, dtype=dtype)
        self.reset_parameters()

    def _add_weights(self, suffix: str, width: int, **options: Unpack[FactoryOptions]) -> None:
        rows = CELLS[self.mode][0] * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, width),
            "weight_hh": (rows, self._width),
        }
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        for name, shape in shapes.items():
            setattr(self, f"{name}_{suffix}", Parameter(weft.empty(shape, **options)))

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _width(self) -> int:
        """The size of the hidden state, which is the output of one direction."""
        return self.proj_size or self.hidden_size

    @property
    def _states(self) -> int:
        return 2 if self.mode == "LSTM" else 1

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of each layer and direction, in the order of the state."""
        kinds = ["weight_ih", "weight_hh"] + ["bias_ih", "bias_hh"] * self.bias
        kinds += ["weight_hr"] * bool(self.proj_size)
        return [[getattr(self, f"{kind}_{end}") for kind in kinds] for end in self._suffixes()]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [weight for weights in self.all_weights for weight in weights]

    def flatten_parameters(self) -> None:
        """Nothing: there is no layout of the weights to be restored."""

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

    def _initial(
        self, hx: Tensor | tuple[Tensor, ...] | None, batch: int, input: Tensor, alone: bool = False
    ) -> list[Tensor]:
        """The first states: hidden (layers * directions, batch, width), cell (layers * directions, batch, hidden)."""
        sizes = (self._width, self.hidden_size)[: self._states]
        shapes: list[tuple[int, ...]] = [
            (self.num_layers * self._directions, batch, size) for size in sizes
        ]
        if hx is None:
            kind = input.dtype
            if self.mode != "GRU" and weft.is_autocast_enabled("cpu"):
                kind = weft.get_autocast_dtype("cpu")  # that of the products: so is every state
            return [weft.zeros(shape, dtype=kind) for shape in shapes]
        return check_states(type(self).__name__, hx, shapes, alone)

    def forward(
        self, input: Tensor, hx: Tensor | tuple[Tensor, ...] | None = None
    ) -> tuple[Tensor, Any]:
        """Outputs of the last layer, (time, batch, directions * width), and the final states.

        Args:
            input: the sequences: a tensor, or a `PackedSequence`.
            hx: the state at the start; of an LSTM a pair; None: zeros.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if getattr(input, "is_nested", False):
            return self._forward_nested(input, hx)
        check_input(type(self).__name__, input)
        self._check_entries(input)
        alone = input.dim() == 2
        x = input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input
        x, last = self._layers(x, self._initial(hx, x.shape[1], input, alone), self._run)
        last = [state.squeeze(1) if alone else state for state in last]
        out = x.squeeze(1) if alone else x.transpose(0, 1) if self.batch_first else x
        return out, tuple(last) if self._states > 1 else last[0]

    def _check_entries(self, input: Tensor) -> None:
        check_entries(input, self.input_size, self.weight_ih_l0)

    def _layers(
        self, x: Tensor, initial: list[Tensor], run: Callable[..., tuple[Tensor, State]]
    ) -> tuple[Tensor, list[Tensor]]:
        """All layers over entries in some order, which `run` takes one layer in one direction through."""
        finals: list[State] = []
        for layer in turns(range(self.num_layers)):
            if layer > 0 and self.dropout > 0:
                x = F.dropout(x, self.dropout, self.training)
            sides = []
            for direction in turns(range(self._directions)):
                number = layer * self._directions + direction
                start = tuple(state[number] for state in initial)
                outputs, final = run(x, start, self._suffixes()[number], direction == 1)
                sides.append(outputs)
                finals.append(final)
            x = sides[0] if len(sides) == 1 else weft.cat(sides, -1)
        return x, [weft.stack(parts) for parts in zip(*finals, strict=True)]

    # -- sequences of different lengths ------------------------------------------------------------

    def _forward_packed(
        self, input: PackedSequence, hx: Tensor | tuple[Tensor, ...] | None
    ) -> tuple[PackedSequence, Any]:
        """A packed batch: the outputs packed in the same way, the states in the order of the batch."""
        self._check_entries(input.data)
        sizes = input.batch_sizes.tolist()
        initial = self._initial(hx, sizes[0], input.data)
        if input.sorted_indices is not None:
            initial = [state.index_select(1, input.sorted_indices) for state in initial]
        run = functools.partial(self._run_packed, sizes=sizes)
        data, last = self._layers(input.data, initial, run)
        if input.unsorted_indices is not None:
            last = [state.index_select(1, input.unsorted_indices) for state in last]
        return PackedSequence(data, *input[1:]), tuple(last) if self._states > 1 else last[0]

    def _forward_nested(
        self, input: Any, hx: Tensor | tuple[Tensor, ...] | None
    ) -> tuple[Any, Any]:
        """A ragged batch (batch, j, in), of which items may be empty: these keep the states that they begin with."""
        if input.ndim != 3 or input.dims != (1,):
            raise NotDefinedError(
                f"{type(self).__name__} of a ragged tensor of shape {list(input.shape)}",
                expected="(batch, j, features)",
                got=f"ragged dimensions {list(input.dims)} of {input.ndim}",
                fix="transpose the ragged dimension to place 1",
            )
        self._check_entries(input.packed)
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
        return out, tuple(last) if self._states > 1 else last[0]

    def _run_packed(
        self, x: Tensor, state: State, suffix: str, backwards: bool, sizes: list[int]
    ) -> tuple[Tensor, State]:
        """One layer in one direction over packed entries: (entries, in) -> (entries, width). The first sizes[t]
        sequences have step t."""
        if not sizes:
            return x.new_zeros(0, self._width), state
        of_input, step = self._projected(x, suffix)
        outputs, final = (walk_back if backwards else walk)(step, of_input.split(sizes), state)
        return weft.cat(outputs), final

    # -- sequences of one length -------------------------------------------------------------------

    def _projected(self, x: Tensor, suffix: str) -> tuple[Tensor, Step]:
        """The contributions of the input at all steps, and the step that takes one of them and the state to the new
        state."""
        bias_ih, bias_hh = (
            (getattr(self, f"{name}_{suffix}") for name in ("bias_ih", "bias_hh"))
            if self.bias
            else (None, None)
        )
        cell, weight_hh = CELLS[self.mode][1], getattr(self, f"weight_hh_{suffix}")
        weight_hr = getattr(self, f"weight_hr_{suffix}") if self.proj_size else None

        def step(part: Tensor, state: State) -> State:
            new = cell(part, F.linear(state[0], weight_hh, bias_hh), state)
            return new if weight_hr is None else (F.linear(new[0], weight_hr), *new[1:])

        return F.linear(x, getattr(self, f"weight_ih_{suffix}"), bias_ih), step

    def _run(self, x: Tensor, state: State, suffix: str, backwards: bool) -> tuple[Tensor, State]:
        """One layer in one direction: (t, n, in) -> (t, n, width) and the final state."""
        whole = self._run_as_one(x, state, suffix, backwards)
        if whole is not None:
            return whole
        of_input, step = self._projected(x, suffix)
        times = range(x.shape[0])
        outputs = []
        for time in turns(reversed(times) if backwards else times):
            state = step(of_input[time], state)
            outputs.append(state[0])
        return weft.stack(outputs[::-1] if backwards else outputs), state

    def _run_as_one(
        self, x: Tensor, state: State, suffix: str, backwards: bool
    ) -> tuple[Tensor, State] | None:
        """`_run` as one operation, where an export has one for such a layer; None elsewhere."""
        if not is_for_any_size() or self.proj_size:
            return None
        names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if self.bias else [])]
        operands = (x, *state, *[getattr(self, f"{name}_{suffix}") for name in names])
        if {operand.dtype for operand in operands} != {weft.float32}:
            return None
        shapes = (x.shape[:2] + state[0].shape[-1:], *[part.shape for part in state])
        found = [
            as_one("recurrent_layer", operands, (self.mode, backwards, result), shape, x.dtype)
            for result, shape in enumerate(map(tuple, shapes))
        ]
        return None if found[0] is None else (found[0], tuple(found[1:]))

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size:
            text += f", proj_size={self.proj_size}"
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


class RNN(RNNBase):
    """A recurrent network (Elman, 1990): each state follows from the input and from the state before.

    Shapes: (T, N, in), state (layers * directions, N, hidden) -> (T, N, directions * hidden), the final state; (N, T,
    in) with `batch_first`; without N also. Errors: ArgumentTypeError, ArgumentError, ShapeError.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.",
                expected="'tanh' or 'relu'",
                got=repr(nonlinearity)[:80],
                fix="use nonlinearity='tanh'",
            )
        no_projection("RNN", proj_size)
        mode, sizes = f"RNN_{nonlinearity.upper()}", (input_size, hidden_size, num_layers)
        super().__init__(mode, *sizes, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """A recurrent network of long short-term memory; states are pairs (hidden, cell).

    With `proj_size` the hidden state, which is the output, is projected to that size in each step.

    Shapes: (T, N, in), states (layers * directions, N, width) and (layers * directions, N, hidden) -> (T, N, directions
    * width), the final states; width is proj_size, or hidden without. Errors: ArgumentTypeError, ArgumentError,
    ShapeError. Source: Hochreiter and Schmidhuber, 1997; Sak, Senior and Beaufays, 2014.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        sizes, flags = (input_size, hidden_size, num_layers), (bias, batch_first)
        super().__init__("LSTM", *sizes, *flags, dropout, bidirectional, proj_size, device, dtype)


class GRU(RNNBase):
    """A recurrent network of gated units (Cho et al., 2014): gates decide how much of a state is renewed.

    Shapes: as `RNN`. Errors: ArgumentTypeError, ArgumentError, ShapeError. Source: Cho et al., 2014.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        no_projection("GRU", proj_size)
        sizes, flags = (input_size, hidden_size, num_layers), (bias, batch_first)
        super().__init__("GRU", *sizes, *flags, dropout, bidirectional, 0, device, dtype)
