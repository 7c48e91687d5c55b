"""Training steps of common models over batches whose sizes are drawn anew at every step.

Rows, lengths, nodes and pixels are drawn, so that what one step is scheduled or compiled for seldom comes again. The
models are written as for PyTorch, without padding; all libraries draw the same sizes and data.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.libraries import fill, integers, normal
from benchmarks.measure import Context, Job, compare
from benchmarks.novel import job_of

WORDS, WIDTH, CLASSES = 1000, 64, 10
Draw = Callable[[Any, random.Random], tuple[Any, ...]]  # a batch of the library


def any_size(context: Context) -> None:
    """Encoder, LSTM, attention, perceptron, convolutions, graph attention."""
    for name, (model, draw) in context.pick(MODELS, {"perceptron": MODELS["perceptron"]}).items():
        compare(
            context,
            f"{name}, sizes drawn anew, Adam step",
            partial(step_of, model=model, draw=draw),
            target=1.5,
        )


def step_of(lib: Any, model: Callable[[Any], Any], draw: Draw) -> Job:
    """One run is one step on a batch of its own."""
    network, criterion = fill(lib, model(lib)), lib.nn.CrossEntropyLoss()
    optimizer = lib.optim.Adam(network.parameters(), lr=1e-3)

    def step(numbers: random.Random) -> float:
        batch = draw(lib, numbers)
        scores = network(*batch)
        wanted = integers(lib, CLASSES, scores.shape[0], seed=numbers.randrange(1 << 30))
        loss = criterion(scores, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return job_of(step)


def words(lib: Any, numbers: random.Random) -> tuple[Any, ...]:
    """Up to eight sentences of one length."""
    rows, length = numbers.randint(1, 8), numbers.randint(5, 60)
    return (integers(lib, WORDS, rows, length, seed=numbers.randrange(1 << 30)),)


def rows(lib: Any, numbers: random.Random) -> tuple[Any, ...]:
    return (normal(lib, numbers.randint(1, 500), 32, seed=numbers.randrange(1 << 30)),)


def pictures(lib: Any, numbers: random.Random) -> tuple[Any, ...]:
    size = numbers.randint(1, 4), 3, numbers.randint(12, 40), numbers.randint(12, 40)
    return (normal(lib, *size, seed=numbers.randrange(1 << 30)),)


def graph(lib: Any, numbers: random.Random) -> tuple[Any, ...]:
    """Nodes, and the two ends of each edge; each node has one that leads to it."""
    nodes = numbers.randint(5, 60)
    edges = numbers.randint(nodes, 4 * nodes)
    seed = numbers.randrange(1 << 30)
    ends = lib.cat([lib.arange(nodes), integers(lib, nodes, edges - nodes, seed=seed)])
    return normal(lib, nodes, 16, seed=seed), integers(lib, nodes, edges, seed=seed + 1), ends


def encoder(lib: Any) -> Any:
    nn = lib.nn

    class Encoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.score = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, CLASSES)
            layer = nn.TransformerEncoderLayer(WIDTH, 4, 128, dropout=0.0, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, x: Any) -> Any:
            return self.score(self.layers(self.embed(x)).mean(1))

    return Encoder()


def lstm(lib: Any) -> Any:
    nn = lib.nn

    class Reader(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.score = nn.Embedding(WORDS, WIDTH), nn.Linear(2 * WIDTH, CLASSES)
            self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)

        def forward(self, x: Any) -> Any:
            return self.score(self.lstm(self.embed(x))[0].mean(1))

    return Reader()


def attention(lib: Any) -> Any:
    nn = lib.nn

    class Attention(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.score = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, CLASSES)
            self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
            self.norm = nn.LayerNorm(WIDTH)

        def forward(self, x: Any) -> Any:
            h = self.embed(x)
            weights = lib.softmax(self.q(h) @ self.k(h).transpose(-1, -2) / WIDTH**0.5, -1)
            return self.score(self.norm(h + weights @ self.v(h)).mean(1))

    return Attention()


def perceptron(lib: Any) -> Any:
    nn = lib.nn
    first = nn.Linear(32, WIDTH), nn.LayerNorm(WIDTH), nn.GELU()
    return nn.Sequential(*first, nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, CLASSES))


def convolutions(lib: Any) -> Any:
    nn = lib.nn
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Linear(16, CLASSES)),
    )


def graph_attention(lib: Any) -> Any:
    nn = lib.nn

    class GraphAttention(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.project, self.weigh = nn.Linear(16, 32), nn.Linear(64, 1)
            self.score = nn.Linear(32, CLASSES)

        def forward(self, x: Any, sources: Any, ends: Any) -> Any:
            h = self.project(x)
            pairs = lib.cat([h[sources], h[ends]], 1)
            weights = nn.functional.leaky_relu(self.weigh(pairs)).squeeze(1)
            weights = (weights - weights.max().detach()).exp()
            totals = lib.zeros(len(x)).index_add(0, ends, weights)
            parts = (weights / totals[ends])[:, None] * h[sources]
            nodes = nn.functional.elu(lib.zeros(len(x), 32).index_add(0, ends, parts))
            return self.score(nodes.mean(0, keepdim=True))

    return GraphAttention()


MODELS: dict[str, tuple[Callable[[Any], Any], Draw]] = {
    "encoder of sentences": (encoder, words),
    "bidirectional LSTM": (lstm, words),
    "attention by hand": (attention, words),
    "perceptron": (perceptron, rows),
    "convolutions": (convolutions, pictures),
    "graph attention": (graph_attention, graph),
}
