"""Programs in the style of tutorials whose next operation depends on the values of those before.

Losses of some steps are PyTorch's, in float64, where rounding decides no branch.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

STEPS = 5
Step = Callable[[], Any]
PROGRAMS: dict[str, Callable[[Any, np.random.RandomState], tuple[list[Any], Step]]] = {}


def program(build: Any) -> Any:
    PROGRAMS[build.__name__] = build
    return build


def parameters(lib: Any, numbers: np.random.RandomState, *shapes: tuple[int, ...]) -> list[Any]:
    """Weights of these shapes, drawn in order."""
    drawn = [numbers.standard_normal(shape) / max(1, shape[-1]) ** 0.5 for shape in shapes]
    return [lib.tensor(each).requires_grad_() for each in drawn]


@program
def adaptive_steps(lib: Any, numbers: np.random.RandomState) -> tuple[list[Any], Step]:
    """A differential equation whose step grows and shrinks by the error of two methods."""
    w, b, out = weights = parameters(lib, numbers, (2, 8), (8,), (8, 2))

    def field(y: Any) -> Any:
        return lib.tanh(y @ w + b) @ out

    def loss() -> Any:
        y = lib.tensor(numbers.standard_normal((4, 2)))
        left, h = 1.0, 0.3
        while left > 1e-9:
            h = min(h, left)
            first = field(y)
            second = field(y + h * first)
            error = (0.5 * h * (second - first)).abs().max().item()
            if error < 2e-2:
                y, left = y + 0.5 * h * (first + second), left - h
            h *= 1.4 if error < 1e-2 else 0.6
        return y.square().mean()

    return weights, loss


@program
def greedy_merges(lib: Any, numbers: np.random.RandomState) -> tuple[list[Any], Step]:
    """A recursive autoencoder: of all neighbours, those that are rebuilt best are merged."""
    table, up, down = weights = parameters(lib, numbers, (12, 4), (8, 4), (4, 8))

    def loss() -> Any:
        nodes = list(table[lib.tensor(numbers.randint(0, 12, numbers.randint(3, 7)))])
        total = 0.0
        while len(nodes) > 1:
            pairs = lib.stack([lib.cat([a, b]) for a, b in zip(nodes, nodes[1:], strict=False)])
            merged = lib.tanh(pairs @ up)
            errors = (merged @ down - pairs).square().sum(1)
            best = int(errors.argmin())
            total = total + errors[best]
            nodes[best : best + 2] = [merged[best]]
        return total

    return weights, loss


@program
def stack_machine(lib: Any, numbers: np.random.RandomState) -> tuple[list[Any], Step]:
    """Which operation comes next is read off the top of the stack."""
    table, one, two = weights = parameters(lib, numbers, (5, 4), (4, 4), (8, 4))

    def loss() -> Any:
        stack: list[Any] = []
        for _ in range(numbers.randint(5, 12)):
            if len(stack) < 2 or stack[-1].sum().item() > 0.5:
                stack.append(table[int(numbers.randint(5))])
            elif stack[-1].argmax().item() % 2:
                stack.append(lib.relu(stack.pop() @ one) - 0.2)
            else:
                stack.append(lib.tanh(lib.cat([stack.pop(), stack.pop()]) @ two))
        return lib.stack(stack).square().mean()

    return weights, loss


@program
def resampled_particles(lib: Any, numbers: np.random.RandomState) -> tuple[list[Any], Step]:
    """A particle filter that draws its particles anew when few of them count."""
    move, weigh = weights = parameters(lib, numbers, (2, 2), (4, 1))

    def loss() -> Any:
        count, total = 12, 0.0
        at = lib.tensor(numbers.standard_normal((count, 2)))
        logits = lib.zeros(count, dtype=lib.float64)
        for _ in range(numbers.randint(3, 7)):
            seen = lib.tensor(numbers.standard_normal(2))
            at = at + lib.tanh(at @ move)
            logits = logits + (lib.cat([at, seen.expand(count, 2)], 1) @ weigh).squeeze(1)
            shares = lib.softmax(logits, 0)
            total = total + ((shares[:, None] * at).sum(0) - seen).square().sum()
            if 1 / shares.detach().square().sum().item() < count / 2:
                places = (lib.arange(count) + 0.5) / count
                drawn = lib.searchsorted(lib.cumsum(shares.detach(), 0), places.double())
                at, logits = at[drawn.clamp(max=count - 1)], lib.zeros(count, dtype=lib.float64)
        return total

    return weights, loss


@program
def early_exits(lib: Any, numbers: np.random.RandomState) -> tuple[list[Any], Step]:
    """Rows leave at the first layer that is sure of them; the batch becomes smaller."""
    layers = parameters(lib, numbers, (4, 4), (4, 4), (4, 4))
    heads = parameters(lib, numbers, (4, 3), (4, 3), (4, 3))

    def loss() -> Any:
        rows = lib.tensor(2 * numbers.standard_normal((9, 4)))
        target, total = lib.tensor(numbers.randint(0, 3, 9)), 0.0
        for layer, head in zip(layers, heads, strict=True):
            rows = rows + lib.tanh(rows @ layer)
            logits = rows @ head
            total = total + lib.nn.functional.cross_entropy(logits, target)
            unsure = lib.softmax(logits, 1).max(1).values < 0.6
            rows, target = rows[unsure], target[unsure]
            if not len(rows):
                break
        return total

    return layers + heads, loss


@program
def evolving_links(lib: Any, numbers: np.random.RandomState) -> tuple[list[Any], Step]:
    """A network of single neurons that is wired anew at every step."""
    (strengths,) = weights = parameters(lib, numbers, (6, 6))

    def loss() -> Any:
        x = lib.tensor(numbers.standard_normal((2, 5)))
        values = list(x)
        for node in range(2, 6):
            total = lib.zeros(5, dtype=lib.float64)
            for source in range(node):
                if numbers.rand() < 0.6:
                    total = total + values[source] * strengths[source, node]
            values.append(lib.tanh(total))
        return (values[-1] - x[0] * x[1]).square().mean() + strengths.square().sum() * 1e-3

    return weights, loss


@program
def labels_of_frames(lib: Any, numbers: np.random.RandomState) -> tuple[list[Any], Step]:
    """Connectionist temporal classification by hand: a row of the lattice for each frame."""
    (weight,) = weights = parameters(lib, numbers, (3, 5))

    def loss() -> Any:
        frames = lib.tensor(numbers.standard_normal((numbers.randint(8, 12), 3)))
        labels = [0]
        for label in numbers.randint(1, 5, numbers.randint(1, 4)):
            labels += [int(label), 0]
        states = len(labels)
        may_skip = lib.tensor(
            [k > 1 and labels[k] != 0 and labels[k] != labels[k - 2] for k in range(states)]
        )
        logs = lib.log_softmax(frames @ weight, 1)[:, lib.tensor(labels)]
        never = lib.full((states,), -1e5, dtype=lib.float64)
        row = lib.cat([logs[0, :2], never[2:]])
        for frame in logs[1:]:
            skipped = lib.where(may_skip, lib.cat([never[:2], row[:-2]]), never)
            ways = lib.stack([row, lib.cat([never[:1], row[:-1]]), skipped])
            row = lib.logsumexp(ways, 0) + frame
        return -lib.logaddexp(row[-1], row[-2])

    return weights, loss


@program
def searched_trees(lib: Any, numbers: np.random.RandomState) -> tuple[list[Any], Step]:
    """A best-first search: one call of a small network for each position that is looked at."""
    w, out = weights = parameters(lib, numbers, (3, 6), (6, 3))

    def loss() -> Any:
        seen, open_ = [], [(0.0, lib.tensor(numbers.standard_normal(3)))]
        for _ in range(6):
            _, at = open_.pop(open_.index(max(open_, key=lambda each: each[0])))
            moves = lib.tanh(at @ w) @ out
            seen.append(moves)
            open_ += [
                (score, at.roll(turn) * 0.9) for turn, score in enumerate(moves.detach().tolist())
            ]
        return lib.stack(seen).square().mean()

    return weights, loss


def losses(lib: Any, name: str, read: bool) -> list[float]:
    """The losses of some steps of gradient descent, read before or after the backward pass."""
    numbers = np.random.RandomState(random.Random(name).randrange(1000))
    weights, loss = PROGRAMS[name](lib, numbers)
    optimizer = lib.optim.SGD(weights, lr=0.05)
    found = []
    for _ in range(STEPS):
        value = loss()
        if read:
            found.append(value.item())
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        if not read:
            found.append(value.item())
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_are_those_of_pytorch(name: str) -> None:
    ours = losses(weft, name, read=False)
    assert ours == pytest.approx(losses(torch, name, read=False), rel=1e-9)
    assert max(ours) > min(ours)


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_do_not_depend_on_when_they_are_read(name: str) -> None:
    assert losses(weft, name, read=True) == losses(weft, name, read=False)
