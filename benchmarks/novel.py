"""Programs that are new at every step: graphs that have never come before and never come again.

Each job draws what it does from numbers of its own, equal for all libraries; a step builds a graph, differentiates it
and reads the values. Nothing that is learned from one step as a whole serves a later one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.libraries import array, fill, normal
from benchmarks.measure import Context, Job, compare

UNARY = ("tanh", "sigmoid", "relu", "neg", "square", "sin", "cos", "abs")
BINARY = ("add", "sub", "mul", "maximum")
RECENT, OLDER = 10, 30  # operands are among so many of the last values
GRAPHS = (
    (20, 16),
    (50, 16),
    (200, 16),
    (1000, 16),
    (200, 256),
    (200, 4096),
)  # operations, elements


def novel(context: Context) -> None:
    """Random graphs, formulas, a beam search, agents."""
    sizes: Any = GRAPHS
    for operations, elements in context.pick(sizes, sizes[:1]):
        compare(
            context,
            f"random graph, {operations} operations on {elements}, per op",
            partial(random_graphs, operations=operations, elements=elements),
            target=3.0 if elements == 16 else 1.0,
        )
    compare(context, "random formulas of 40 operations, per op", formulas, target=3.0)
    compare(context, "beam search that decides by values, d 64", beam_search, target=1.0)
    compare(context, "agents with networks put together anew, d 32", agents, target=1.0)


def job_of(step: Callable[[random.Random], Any], per: int = 1) -> Job:
    """A job whose every run draws other numbers; what is compared is drawn from the same ones for all libraries."""
    draw = random.Random(7)
    return Job(lambda: step(draw), lambda: [np.float64(step(random.Random(1)))], per=per)


def random_graphs(lib: Any, operations: int, elements: int) -> Job:
    """Each operand is one of the last values; the loss is a mean of the last five."""
    leaves = [(normal(lib, elements, seed=n) * 0.5).requires_grad_() for n in range(5)]

    def step(draw: random.Random) -> float:
        values = list(leaves)
        for _ in range(operations):
            x = draw.choice(values[-RECENT:])
            if draw.random() < 0.5:
                values.append(getattr(lib, draw.choice(UNARY))(x))
            else:
                other = draw.choice(values[-OLDER:])
                values.append(lib.tanh(getattr(lib, draw.choice(BINARY))(x, other)))
        return differentiated(sum(value.mean() for value in values[-5:]), leaves)

    return job_of(step, operations)


def differentiated(loss: Any, leaves: list[Any]) -> float:
    """The loss, after its gradients have been computed and one of them read."""
    for leaf in leaves:
        leaf.grad = None
    loss.backward()
    return loss.item() + sum(float(leaf.grad[0]) for leaf in leaves[-1:] if leaf.grad is not None)


def formulas(lib: Any) -> Job:
    """Expression trees over five columns of 64 rows, evaluated by recursion: a step of symbolic regression."""
    columns = [normal(lib, 64, seed=n) for n in range(5)]
    constants = normal(lib, 8, seed=9).requires_grad_()
    wanted = normal(lib, 64, seed=10)

    def value(draw: random.Random, operations: int) -> Any:
        if operations == 0:
            kind = draw.randrange(13)
            return columns[kind] if kind < 5 else constants[kind - 5]
        if operations == 1 or draw.random() < 0.4:
            return getattr(lib, draw.choice(UNARY))(value(draw, operations - 1))
        left = draw.randrange(operations)
        one, other = value(draw, left), value(draw, operations - 1 - left)
        return getattr(lib, draw.choice(BINARY))(one, other)

    def step(draw: random.Random) -> float:
        loss = (value(draw, 40) - wanted).square().mean() + constants.square().mean()
        return differentiated(loss, [constants])

    return job_of(step, 40)


def beam_search(lib: Any) -> Job:
    """Four hypotheses of up to twelve words; each is continued by its own cell state, and the best four stay."""
    width, words, beams = 64, 50, 4
    cell = fill(lib, lib.nn.GRUCell(width, width))
    embed, score = fill(lib, lib.nn.Embedding(words, width)), fill(lib, lib.nn.Linear(width, words))
    numbers = [lib.tensor(n) for n in range(words)]

    def step(draw: random.Random) -> float:
        start = normal(lib, width, seed=draw.randrange(1 << 30))
        hypotheses = [(0.0, draw.randrange(words), start)]
        with lib.no_grad():
            for _ in range(8 + draw.randrange(5)):
                grown = []
                for total, word, state in hypotheses:
                    following = cell(embed(numbers[word]), state)
                    scores = score(following).log_softmax(0).tolist()
                    best = sorted(range(words), key=scores.__getitem__)[-beams:]
                    grown += [(total + scores[n], n, following) for n in best]
                hypotheses = sorted(grown, key=lambda one: one[0])[-beams:]
        return hypotheses[-1][0]

    return job_of(step)


def agents(lib: Any) -> Job:
    """Twelve agents; each puts layers of a common store together as it observes, then all of them learn."""
    width = 32
    store = [fill(lib, lib.nn.Linear(width, width)) for _ in range(6)]
    shown = normal(lib, 64, width, seed=3)
    parameters = [parameter for layer in store for parameter in layer.parameters()]

    def step(draw: random.Random) -> float:
        losses = []
        for _ in range(12):
            x = shown[draw.randrange(64)]
            for _ in range(1 + draw.randrange(5)):
                layer = draw.choice(store)
                x = draw.choice((lib.tanh, lib.relu, lib.sigmoid))(layer(x))
                if draw.random() < 0.3:
                    x = x + shown[draw.randrange(64)]
            losses.append(x.square().mean())
        for parameter in parameters:
            parameter.grad = None
        loss = lib.stack(losses).mean()
        loss.backward()
        return float(loss) + float(array(store[0].bias.grad).sum() if has(store[0]) else 0.0)

    def has(layer: Any) -> bool:
        return layer.bias.grad is not None

    return job_of(step)
