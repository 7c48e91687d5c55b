"""A character GPT on the source text of Python's standard library.

Run: python examples/char_lm.py [--steps 600]
"""

from __future__ import annotations

import argparse
import math
import sysconfig
from pathlib import Path

import weft
import weft.nn.functional as F
from weft import nn

CONTEXT, WIDTH, HEADS, LAYERS = 64, 96, 4, 3


class Block(nn.Module):
    """Causal self-attention, then a perceptron, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        b, t, c = x.shape
        q, k, v = self.query_key_value(self.norm1(x)).split(WIDTH, dim=2)
        q, k, v = (
            part.view(b, t, HEADS, c // HEADS).transpose(
                1, 2
            )  # (b, t, c) -> (b, heads, t, c/heads)
            for part in (q, k, v)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Predicts the next character at every position."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.token = nn.Embedding(characters, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, characters)

    def forward(self, text: weft.Tensor) -> weft.Tensor:
        x = self.token(text) + self.position(weft.arange(text.shape[1]))  # (b, t) -> (b, t, c)
        return self.out(self.norm(self.blocks(x)))  # (b, t, c) -> (b, t, characters)


def load_text() -> str:
    """The library's top-level modules, ASCII only."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = "\n".join(file.read_text(encoding="utf-8", errors="ignore") for file in files)
    return "".join(c for c in text[:1_000_000] if c.isascii())


def sample_batch(data: weft.Tensor, size: int) -> tuple[weft.Tensor, weft.Tensor]:
    """Random stretches of text, and the same one character further: (size, CONTEXT) each."""
    starts = weft.randint(0, len(data) - CONTEXT - 1, (size, 1))
    places = starts + weft.arange(CONTEXT)
    return data[places], data[places + 1]


def loss_of(model: GPT, batch: tuple[weft.Tensor, weft.Tensor]) -> weft.Tensor:
    """Mean cross entropy of the next character."""
    x, y = batch
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def write(model: GPT, characters: str, start: str, length: int) -> str:
    """Continue a text."""
    text = [characters.index(c) for c in start]
    with weft.no_grad():
        for _ in range(length):
            scores = model(weft.tensor([text[-CONTEXT:]]))[0, -1]
            text.append(int(weft.multinomial(F.softmax(scores / 0.8, 0), 1)))
    return "".join(characters[i] for i in text)


def main(arguments: list[str] | None = None) -> float:
    """Train, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    steps = parser.parse_args(arguments).steps
    weft.manual_seed(0)
    text = load_text()
    characters = "".join(sorted(set(text)))
    data = weft.tensor([characters.index(c) for c in text])
    train, held_out = data[: len(data) * 9 // 10], data[len(data) * 9 // 10 :]
    model = GPT(len(characters))
    optimizer = weft.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(1, steps + 1):
        loss = loss_of(model, sample_batch(train, 32))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0 or step == steps:
            with weft.no_grad():
                held = loss_of(model, sample_batch(held_out, 64)).item()
            print(f"step {step}  loss {loss.item():.3f}  held out {held:.3f}", flush=True)
    print(f"guessing evenly would be {math.log(len(characters)):.3f}\n")
    print(write(model, characters, "def ", 200))
    return held


if __name__ == "__main__":
    main()
