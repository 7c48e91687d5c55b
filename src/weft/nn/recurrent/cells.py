"""Recurrent cells as modules: one step at a time, from an input and a state to the new state.

`cell_steps` computes a step, also for the layers over whole sequences.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import weft
from weft import Tensor
from weft._typing import DeviceLike
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError
from weft.nn import functional as F
from weft.nn import init
from weft.nn.module.module import Module
from weft.nn.parameter import Parameter
from weft.nn.recurrent.cell_steps import fits, gru_cell, lstm_cell
from weft.nn.recurrent.checks import check_pair, check_state, check_step

if TYPE_CHECKING:
    from weft._typing import FactoryOptions


class RNNCellBase(Module):
    """The common part of cells: the weights of `num_chunks` gates and the checks of their inputs."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        rows = num_chunks * hidden_size
        options: FactoryOptions = {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(weft.empty((rows, input_size), **options))
        self.weight_hh = Parameter(weft.empty((rows, hidden_size), **options))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(weft.empty(rows, **options)) if bias else None)
        self.bias = bias
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _checked(self, input: Tensor, hx: Tensor | None) -> Tensor:
        """The state to begin with. Errors: ArgumentTypeError, ArgumentError, ShapeError."""
        if fits(input, (hx,), self.input_size, self.hidden_size):
            return hx  # type: ignore[return-value]
        name = type(self).__name__
        check_step(name, input, self.input_size)
        if hx is None:
            return self._zeros(input)
        check_state(name, "hidden", hx, input, self.hidden_size)
        return hx

    def _zeros(self, input: Tensor) -> Tensor:
        return weft.zeros((*input.shape[:-1], self.hidden_size), dtype=input.dtype)

    def _project(self, input: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """(N, in) -> (N, gates * hidden) and (N, hidden) -> (N, gates * hidden)."""
        return (
            F.linear(input, self.weight_ih, self.bias_ih),
            F.linear(hidden, self.weight_hh, self.bias_hh),
        )

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        return text if self.bias else text + ", bias=False"


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh). Shapes: (N, in), (N, hidden) -> (N, hidden)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(
                f"Unknown nonlinearity: {nonlinearity}",
                expected="'tanh' or 'relu'",
                got=repr(nonlinearity),
                fix="use nonlinearity='tanh'",
            )
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """One step.

        Args:
            input: the input of this step, (N, input_size) or (input_size).
            hx: the hidden state, (N, hidden_size); None: zeros.
        """
        of_input, of_hidden = self._project(input, self._checked(input, hx))
        total = of_input + of_hidden
        return total.tanh() if self.nonlinearity == "tanh" else total.relu()

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.nonlinearity == "tanh" else f"{text}, nonlinearity={self.nonlinearity}"


class LSTMCell(RNNCellBase):
    """One step of an LSTM: gates decide what a cell forgets, takes in and shows (Hochreiter and Schmidhuber, 1997).

    Shapes: (N, in), ((N, hidden), (N, hidden)) -> the pair.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """One step: the new hidden and cell state.

        Args:
            input: the input of this step, (N, input_size) or (input_size).
            hx: hidden and cell state, a pair of (N, hidden_size); None: zeros.
        """
        pair: Any = hx
        if not fits(input, hx, self.input_size, self.hidden_size):
            pair = self._pair(input, hx)
        of_input, of_hidden = self._project(input, pair[0])
        hidden, memory = lstm_cell(of_input, of_hidden, pair)
        return hidden, memory

    def _pair(self, input: Tensor, hx: tuple[Tensor, ...] | None) -> tuple[Tensor, Tensor]:
        """The states to begin with. Errors: ArgumentTypeError, ArgumentError, ShapeError."""
        check_step("LSTMCell", input, self.input_size)
        if hx is None:
            zeros = self._zeros(input)
            return zeros, zeros
        pair = check_pair("LSTMCell", hx)
        for number, state in enumerate(pair):
            check_state("LSTMCell", f"hx[{number}]", state, input, self.hidden_size)
        return pair[0], pair[1]


class GRUCell(RNNCellBase):
    """One step of a GRU, with the reset gate after the product (Cho et al., 2014). Shapes: (N, in), (N, hidden) -> (N,
    hidden).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """One step.

        Args:
            input: the input of this step, (N, input_size) or (input_size).
            hx: the hidden state, (N, hidden_size); None: zeros.
        """
        hidden = self._checked(input, hx)
        of_input, of_hidden = self._project(input, hidden)
        return gru_cell(of_input, of_hidden, (hidden,))[0]
