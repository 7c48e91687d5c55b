"""Runs that tests of the board look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft import nn


class Cell(nn.Module):
    """One step of a small recurrent network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.new, self.old = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: weft.Tensor, h: weft.Tensor) -> weft.Tensor:
        return (self.new(x) + self.old(h)).tanh()


class Recurrent(nn.Module):
    """A network whose graph has the length of its input."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.width, self.cell, self.out = width, Cell(width), nn.Linear(width, 1)

    def forward(self, xs: list[weft.Tensor]) -> weft.Tensor:
        h = weft.zeros(self.width)
        for x in xs:
            h = self.cell(x, h)
        return self.out(h)


def recorded(
    model: nn.Module, loss_of: Callable[[int], Any], steps: int, **options: Any
) -> weft.board.Board:
    """A board that has watched some steps, looking at each."""
    optimizer = weft.optim.SGD(model.parameters(), lr=0.01)
    with weft.board(model, serve=False, share=1, **options) as board:
        for step in range(steps):
            optimizer.zero_grad()
            loss = loss_of(step)
            loss.backward()
            optimizer.step()
            board.step(loss=loss)
    return board


def recurrent_run(steps: int = 3, **options: Any) -> weft.board.Board:
    """Sequences that are longer in each step."""
    model = Recurrent()
    inputs = [weft.randn(4) for _ in range(8)]

    def loss_of(step: int) -> weft.Tensor:
        return weft.stack([model(inputs[: 2 + n % 3 + step]) for n in range(5)]).square().mean()

    return recorded(model, loss_of, steps, **options)


def faulty_run(steps: int = 14) -> weft.board.Board:
    """A run with a dead unit, a list that grows, and a logarithm that makes a nan in the last step."""
    model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 1))
    with weft.no_grad():
        model[0].weight.abs_()  # the other units are alive
        model[0].bias.abs_()
        model[0].weight[2] = 0
        model[0].bias[2] = -1
    kept = []
    x = weft.rand(16, 3)

    def loss_of(step: int) -> weft.Tensor:
        hidden = model(x)
        kept.append(hidden.detach() * 1)
        scale = weft.full((1,), -1.0 if step == steps - 1 else 1.0).log()
        return hidden.square().mean() + scale.sum()

    return recorded(model, loss_of, steps)
