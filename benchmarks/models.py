"""Models that both libraries run from one text: perceptron, GPT, Tree-LSTM.

In: a library `lib` with PyTorch's API. Out: its modules, ready to train. Weights and data are left
to the workloads.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class GPTSize(NamedTuple):
    """The sizes of a GPT and of its batch."""

    layers: int = 4
    width: int = 256
    heads: int = 4
    length: int = 128
    batch: int = 8
    characters: int = 256


SMALL_GPT = GPTSize(layers=2, width=64, heads=2, length=32, batch=4)


def perceptron(lib: Any, *widths: int) -> Any:
    """Linear layers with relu between them."""
    nn = lib.nn
    layers: list[Any] = []
    for before, after in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def gpt(lib: Any, size: GPTSize) -> Any:
    """A GPT over characters: (batch, length) -> (batch, length, characters)."""
    nn, functional = lib.nn, lib.nn.functional
    width, heads = size.width, size.heads

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        """Causal self-attention, then a perceptron, each added to its input."""

        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.query_key_value = nn.Linear(width, 3 * width)
            self.project = nn.Linear(width, width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width),
                nn.GELU(approximate="tanh"),
                nn.Linear(4 * width, width),
            )

        def attend(self, x: Any) -> Any:
            b, t, _ = x.shape
            parts = self.query_key_value(x).split(width, dim=2)  # (b, t, 3 c) -> 3 x (b, t, c)
            q, k, v = (part.view(b, t, heads, width // heads).transpose(1, 2) for part in parts)
            out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)  # (b, h, t, e)
            return self.project(out.transpose(1, 2).reshape(b, t, width))

        def forward(self, x: Any) -> Any:
            x = x + self.attend(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class GPT(nn.Module):  # type: ignore[misc,name-defined]
        """Embeddings, blocks, scores."""

        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(size.characters, width)
            self.position = nn.Embedding(size.length, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(size.layers)))
            self.norm = nn.LayerNorm(width)
            self.out = nn.Linear(width, size.characters)

        def forward(self, text: Any) -> Any:
            x = self.token(text) + self.position(lib.arange(text.shape[1]))  # (b, t) -> (b, t, c)
            return self.out(self.norm(self.blocks(x)))

    return GPT()


def tree_lstm(lib: Any, labels: int, classes: int, width: int) -> Any:
    """A child-sum Tree-LSTM (Tai, Socher and Manning 2015): one tree -> (classes).

    A tree is (label as an int64 tensor, children). There is no batching in it: the recursion
    follows the tree.
    """
    nn = lib.nn

    class TreeLSTM(nn.Module):  # type: ignore[misc,name-defined]
        """Plain recursion over one tree."""

        def __init__(self) -> None:
            super().__init__()
            self.gates_of_label = nn.Embedding(labels, 4 * width)
            self.gates_of_sum = nn.Linear(width, 3 * width)
            self.forget_of_child = nn.Linear(width, width)
            self.classify = nn.Linear(width, classes)

        def encode(self, tree: Any) -> Any:
            label, children = tree
            i, o, u, f = self.gates_of_label(label).split(width)  # (4 w) -> 4 x (w)
            if not children:
                cell = i.sigmoid() * u.tanh()
                return o.sigmoid() * cell.tanh(), cell
            states = [self.encode(child) for child in children]
            total = states[0][0]
            for hidden, _ in states[1:]:
                total = total + hidden
            i2, o2, u2 = self.gates_of_sum(total).split(width)  # (w) -> (3 w) -> 3 x (w)
            cell = (i + i2).sigmoid() * (u + u2).tanh()
            for hidden, below in states:
                cell = cell + (f + self.forget_of_child(hidden)).sigmoid() * below
            return (o + o2).sigmoid() * cell.tanh(), cell

        def forward(self, tree: Any) -> Any:
            return self.classify(self.encode(tree)[0])

    return TreeLSTM()
