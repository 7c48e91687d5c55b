"""
Letter by letter
================

A small GPT (Radford and others, 2018) learns to write Python from the standard library's own source. It sees up to 48
letters, and says which comes next at each place. This is the program of the gallery that is the same for every input:
dense work, in batches.

Run: ``python examples/gallery/character_gpt.py [steps]``
"""

import inspect
import math
import sys

import matplotlib.pyplot as plt

import weft
from weft import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
weft.manual_seed(0)

# %%
# The text
# --------

names = ("argparse", "collections", "dataclasses", "inspect", "random", "statistics", "textwrap")
source = "".join(inspect.getsource(__import__(name)) for name in names)
TEXT = "".join(letter for letter in source if letter.isascii())
LETTERS = sorted(set(TEXT))
data = weft.tensor([LETTERS.index(letter) for letter in TEXT])
train, held_out = data[: len(data) * 9 // 10], data[len(data) * 9 // 10 :]

# %%
# The network
# -----------

CONTEXT, WIDTH, HEADS = 48, 64, 4


class Block(nn.Module):
    """Attention to what stands before, then a perceptron, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.look, self.join = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.think = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        b, t, _ = x.shape
        parts = self.look(self.before(x)).reshape(b, t, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each (b, heads, t, width / heads)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.think(self.behind(x))


class GPT(nn.Module):
    """Letters (b, t) -> a score for each letter that could come next (b, t, letters)."""

    def __init__(self) -> None:
        super().__init__()
        self.letter, self.place = nn.Embedding(len(LETTERS), WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.out = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(LETTERS)))

    def forward(self, text: weft.Tensor) -> weft.Tensor:
        return self.out(self.blocks(self.letter(text) + self.place(weft.arange(text.shape[1]))))


def loss_of(text: weft.Tensor, count: int) -> weft.Tensor:
    """How surprised the model is by stretches of a text, in nats a letter."""
    starts = weft.randint(0, len(text) - CONTEXT - 1, (count, 1))
    windows = text[starts + weft.arange(CONTEXT + 1)]
    scores = model(windows[:, :-1])
    return nn.functional.cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten())


model = GPT()
optimizer = weft.optim.AdamW(model.parameters(), lr=3e-3)
losses, tests = [], []
for step in range(STEPS):
    loss = loss_of(train, 32)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
    if step % 50 == 49 or step == STEPS - 1:
        with weft.no_grad():
            tests.append((step, loss_of(held_out, 64).item()))

# %%
# It writes
# ---------


def write(start: str, length: int) -> str:
    """Go on from a beginning, each letter drawn from what the model says."""
    text = [LETTERS.index(letter) for letter in start]
    with weft.no_grad():
        for _ in range(length):
            scores = model(weft.tensor([text[-CONTEXT:]]))[0, -1]
            text.append(int(weft.multinomial((scores / 0.7).softmax(0), 1)))
    return "".join(LETTERS[i] for i in text)


print(f"{math.log(len(LETTERS)):.2f} nats a letter by guessing, {tests[-1][1]:.2f} on new text")
print(write("    def ", 160))

# %%
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot([loss.item() for loss in losses], label="training")
axes.plot(*zip(*tests, strict=True), "o-", label="new text")
axes.axhline(math.log(len(LETTERS)), color="grey", linestyle=":", label="guessing")
axes.set(xlabel="step", ylabel="nats a letter")
axes.legend()
plt.show()
