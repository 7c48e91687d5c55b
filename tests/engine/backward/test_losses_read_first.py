"""To read the loss before `backward()` changes no bit of a gradient: whether a walk brings its records together depends
on the graph, not on whether it has run, and a walk that is known is as the first one was."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import nn
from weft.config import config
from weft.nn.functional import layer_norm, rms_norm

Loss = Callable[[], Any]


def random_program(seed: int) -> tuple[list[Any], Loss]:
    """Norms, products and sums of a few rows that read each other, as one chain or as many examples."""
    choose = random.Random(seed)
    weft.manual_seed(seed)
    width = choose.choice([4, 8, 16])
    linear, norm, conv = nn.Linear(width, width), nn.LayerNorm(width), nn.Conv1d(width, width, 1)
    table = nn.Embedding(10, width)
    rows = [weft.randn(choose.randrange(1, 4), width) for _ in range(choose.randrange(2, 20))]
    drawn = [
        (choose.randrange(8), choose.random(), choose.random())
        for _ in range(choose.randrange(5, 60))
    ]

    def value(kind: int, x: Any, y: Any, row: float) -> Any:
        if kind == 0:
            return linear(x).tanh()
        if kind in (1, 2):
            return norm(x)
        if kind == 3:
            return x + y[:1]
        if kind == 4:
            return x * table(weft.tensor([int(row * 10)]))
        if kind == 5:
            return conv(x.T[None])[0].T
        if kind == 6:
            return rms_norm(x, (width,)) + layer_norm(y[:1], (width,))
        return x.softmax(1)

    def loss() -> Any:
        pool = list(rows)
        for kind, first, second in drawn:
            x, y = pool[int(first * len(pool))], pool[int(second * len(pool))]
            pool.append(value(kind, x, y, first))
        return sum(each.pow(2).mean() for each in pool[-8:]) + linear.bias.sum()

    parameters = [p for layer in (linear, norm, conv, table) for p in layer.parameters()]
    return parameters, loss


def gradients(seed: int, reads: Callable[[int], bool], steps: int = 4) -> list[list[bytes]]:
    """The bytes of the gradients of some steps, in some of which the loss is read first."""
    parameters, loss = random_program(seed)
    found = []
    for step in range(steps):
        for each in parameters:
            each.grad = None
        total = loss()
        if reads(step):
            total.item()
        total.backward()
        found.append([p.grad.numpy().tobytes() for p in parameters if p.grad is not None])
    return found


@pytest.mark.parametrize("seed", range(40))
def test_to_read_the_loss_first_changes_no_gradient(seed: int) -> None:
    unread = gradients(seed, lambda step: False)
    assert unread == [unread[0]] * 4
    assert gradients(seed, lambda step: True) == unread
    assert gradients(seed, lambda step: step % 2 == 1) == unread


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("tier", ["none", "every"])
def test_no_tier_changes_a_gradient(seed: int, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = gradients(seed, lambda step: False, 2)
    monkeypatch.setattr(config, "interpreter", tier)
    for reads in (False, True):
        assert gradients(seed, lambda step, reads=reads: reads, 2) == expected


def test_walks_over_views_of_leaves_stay_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of views come before the operations that read them; they belong to the graph. Two steps, as chains of
    operations of which none come together: neither brings its records together."""
    walks: list[Any] = []
    backward = importlib.import_module("weft.autograd.backward")
    made = backward._made_walk
    monkeypatch.setattr(
        backward, "_made_walk", lambda *given: walks.append(made(*given)) or walks[-1]
    )
    monkeypatch.setattr(config, "cache", False)  # no walk is known
    constants, x = weft.linspace(0.1, 0.8, 8).requires_grad_(), weft.linspace(-1, 1, 64)
    for read in (False, True):
        value = x
        for n in range(40):
            value = (value * constants[n % 8]).tanh() if n % 3 else value.sin()
        loss = value.square().mean()
        if read:
            loss.item()
        loss.backward()
    assert [walk.is_narrow() for walk in walks] == [True, True]
