"""A language model of lines of source code, as bytes: batches of lines of any length, without padding.

Lines come from Python's standard library. Every batch holds about the same number of bytes, whatever the lines.

Run: python examples/ragged.py [--steps 300]
"""

from __future__ import annotations

import argparse
import math
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import weft
import weft.nn.functional as F
from weft import nested, nn
from weft.utils.data import DataLoader, RandomSampler, TokenBatchSampler, ragged_collate

WIDTH, HEADS, LONGEST = 64, 4, 120


class Block(nn.Module):
    """Causal attention within each line, then a perceptron, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: nested.NestedTensor) -> nested.NestedTensor:
        parts = self.query_key_value(self.norm1(x)).chunk(3, -1)  # each (lines, j, width)
        heads = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        attended = F.scaled_dot_product_attention(*heads, is_causal=True)  # (lines, heads, j, size)
        x = x + self.project(attended.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    """Predicts each next byte of a line."""

    def __init__(self) -> None:
        super().__init__()
        self.byte, self.position = nn.Embedding(256, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.out = nn.Linear(WIDTH, 256)

    def forward(self, lines: nested.NestedTensor) -> nested.NestedTensor:
        places = weft.ones_like(lines).cumsum(1) - 1  # 0, 1, 2, ... in each line
        return self.out(self.blocks(self.byte(lines) + self.position(places)))  # (lines, j, 256)


def bits_per_byte(model: Model, lines: nested.NestedTensor) -> weft.Tensor:
    """The mean over all bytes of all lines but the first of each."""
    return F.cross_entropy(model(lines[:, :-1]), lines[:, 1:]) / math.log(2)


def load_lines() -> list[weft.Tensor]:
    """Lines of the standard library that are not blank, with their ends."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    texts = (folder / name for name in ("argparse.py", "ast.py", "inspect.py", "typing.py"))
    lines = [line for text in texts for line in text.read_bytes().splitlines(True) if line.strip()]
    return [weft.tensor(list(line[:LONGEST])) for line in lines]


def batches(lines: list[weft.Tensor]) -> Iterator[nested.NestedTensor]:
    """Ragged batches of up to 4000 bytes, again and again."""
    sampler = TokenBatchSampler([len(line) for line in lines], 4000, RandomSampler(lines))
    while True:
        yield from DataLoader(lines, batch_sampler=sampler, collate_fn=ragged_collate)


def main(arguments: list[str] | None = None) -> float:
    """Train; the bits per byte on lines that were held out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args(arguments).steps
    weft.manual_seed(0)
    lines = load_lines()
    held_out = nested.as_nested_tensor(lines[::20])
    train = [line for place, line in enumerate(lines) if place % 20]
    model = Model()
    optimizer = weft.optim.AdamW(model.parameters(), lr=3e-3)
    for step, batch in zip(range(1, steps + 1), batches(train), strict=False):
        loss = bits_per_byte(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0 or step == steps:
            print(f"step {step}  {len(batch)} lines  {loss.item():.2f} bits per byte")
    with weft.no_grad():
        reached = bits_per_byte(model, held_out).item()
    print(f"held out  {len(held_out)} lines  {reached:.2f} bits per byte")
    return reached


if __name__ == "__main__":
    main()
