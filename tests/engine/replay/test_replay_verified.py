"""What is replayed is, node by node, what is recorded without: known calls, updates and walks are done both ways."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import random_programs as programs
import weft
from properties import QUICK
from weft import nn, optim
from weft.engine.api import call_cache
from weft.engine.api.call_cache import ComposedPart
from weft.engine.backward.replay import known_walks
from weft.engine.frontend.recorder import was_inference_used
from weft.engine.replay import cache, conditions
from weft.optim import updating


@pytest.fixture(autouse=True)
def verifying(known_soon: None) -> Iterator[None]:
    weft.realize()
    cache.clear()
    before = conditions.set_verifying(True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    conditions.set_verifying(before)
    cache.clear()


def hits() -> Counter[str]:
    return Counter({name: counters["hits"] for name, counters in cache.tally.items()})


def library(function: Any) -> Any:
    """A function as if it stood in the library: nodes have the line that it is called from."""
    code = function.__code__.replace(co_filename=nn.functional.__file__)
    return type(function)(code, globals(), function.__name__, None, function.__closure__)


@QUICK
@given(steps=programs.program_steps, seed=st.integers(0, 1000))
def test_random_programs(steps: list[programs.Step], seed: int) -> None:
    for example in range(4):
        programs.Machine(weft, "float64", seed, example=example).run(steps, 3)


def test_the_programs_above_are_replayed() -> None:
    before = hits()
    for seed in range(20):
        steps = [(seed + i, seed * 7 + i, i * 5, seed + 3 * i) for i in range(8)]
        for example in range(4):
            programs.Machine(weft, "float64", seed, example=example).run(steps, 3)
    after = hits()
    assert after["walks"] - before["walks"] >= 10


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.bn = nn.BatchNorm2d(4)
        self.out = nn.Linear(16, 3)

    def forward(self, x: Any) -> Any:
        x = nn.functional.gelu(self.norm(self.conv(x)))
        x = nn.functional.adaptive_avg_pool2d(self.bn(x), (2, 2))
        return self.out(nn.functional.layer_norm(x.flatten(1), (16,)))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "Rprop"])
def test_steps_of_training(name: str) -> None:
    weft.manual_seed(0)
    model, before = Net(), hits()
    optimizer = getattr(optim, name)(model.parameters(), lr=0.01)
    for step in range(6):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        x = weft.randn(5, 2, 6, 6)
        nn.functional.cross_entropy(model(x), weft.tensor([0, 1, 2, 1, 0])).backward()
        optimizer.step()
    after = hits()
    clients = ("updates",) if was_inference_used() else ("calls", "updates")
    assert all(after[client] > before[client] for client in clients)


def test_gradients_that_add_up_on_several_leaves() -> None:
    a, b = (weft.full((3,), 0.5, requires_grad=True) for _ in range(2))
    before = known_walks.counters["hits"]
    for number in range(6):
        ((a * b).tanh() + a * float(number)).sum().backward()
        weft.realize()
    assert known_walks.counters["hits"] - before >= 3


def test_a_call_that_depends_on_something_else_is_found() -> None:
    factor = [2.0]
    part = ComposedPart(library(lambda x: (x * factor[0]).tanh()))
    x, before = weft.ones(3), call_cache.counters["hits"]
    for _ in range(4):
        part(x)
    assert call_cache.counters["hits"] - before == 2
    factor[0] = 3.0
    with pytest.raises(weft.errors.VerificationError, match="a call of"):
        part(x)


def test_a_call_that_records_more_is_found() -> None:
    more: list[int] = []

    def function(x: Any) -> Any:
        y = x * 2
        return y.exp() if more else y

    part = ComposedPart(library(function))
    x = weft.ones(3)
    for _ in range(4):
        part(x)
    more.append(1)
    with pytest.raises(weft.errors.VerificationError, match="nodes"):
        part(x)


@pytest.mark.parametrize("wrong", ["factor", "target", "number"])
def test_an_update_that_depends_on_something_else_is_found(wrong: str) -> None:
    weft.manual_seed(0)
    candidates = [(weft.randn(3), weft.randn(3), {"sum": weft.zeros(3), "n": 1}) for _ in range(3)]
    with weft.no_grad(), pytest.raises(weft.errors.VerificationError, match="an update"):
        for turn, (p, g, state) in enumerate(updating.once_for_all(iter(candidates))):
            changed = wrong if turn == 2 else ""
            state["sum"] += g * (3.0 if changed == "factor" else 2.0)
            p -= state["sum"]
            if changed == "target":
                state["sum"] *= 2.0
            state["n"] = 7 if changed == "number" else 2
