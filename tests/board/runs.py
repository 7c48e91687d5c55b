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


def tree_run(steps: int = 3, trees: int = 8, width: int = 16) -> weft.board.Board:
    """Steps of the demo's Tree-LSTM, over functions of the standard library."""
    from weft.demo.syntax_trees import load_functions
    from weft.demo.train import Settings, Trainer

    data = load_functions(limit=steps * trees)
    trainer = Trainer(data, Settings(width=width, trees_per_step=trees))
    with weft.board(trainer.model, serve=False, share=1) as board:
        for step in range(steps):
            loss, right = trainer.step(list(data.train[step * trees : (step + 1) * trees]))
            board.step(loss=loss, right=right / trees)
    return board


class Block(nn.Module):
    """Causal self-attention and a perceptron, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def attend(self, x: weft.Tensor) -> weft.Tensor:
        b, t, c = x.shape
        parts = self.query_key_value(x).split(c, dim=2)  # (b, t, 3 c) -> 3 x (b, t, c)
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in parts)
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.project(out.transpose(1, 2).reshape(b, t, c))

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A small GPT over characters."""

    def __init__(
        self, layers: int = 2, width: int = 32, length: int = 16, characters: int = 64
    ) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(characters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, 2) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters)

    def forward(self, text: weft.Tensor) -> weft.Tensor:
        x = self.token(text) + self.position(weft.arange(text.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def gpt_run(steps: int = 3) -> weft.board.Board:
    """Steps of a small GPT."""
    model = GPT()

    def loss_of(step: int) -> weft.Tensor:
        text = weft.randint(0, 64, (4, 17))
        scores = model(text[:, :-1])
        return nn.functional.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten())

    return recorded(model, loss_of, steps)


def wide_run() -> weft.board.Board:
    """A step of more than a hundred thousand records."""
    x = weft.ones(2, requires_grad=True)
    layer = nn.Linear(2, 2)

    def loss_of(step: int) -> weft.Tensor:
        rows = [((x + n).tanh() * 2).exp().sum() for n in range(20_000)]
        return weft.stack(rows).sum() + layer(x).sum()

    return recorded(layer, loss_of, 1)
