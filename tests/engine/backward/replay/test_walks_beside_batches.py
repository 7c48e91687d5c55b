"""Walks over known graphs where other things become batches: the running statistics of several norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.engine.backward.replay import known_walks

nn = weft.nn


def repeated(job: Callable[[], Any]) -> int:
    """How many walks of a job were known."""
    before = known_walks.counters["hits"]
    job()
    return known_walks.counters["hits"] - before


def normed(depth: int = 4) -> Any:
    weft.manual_seed(0)
    layers = [m for _ in range(depth) for m in (nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(6, 2))


def steps(count: int, forget: bool) -> list[bytes]:
    """Losses, gradients and running statistics of some steps on other numbers each."""
    model, found = normed(), []
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
    for number in range(count):
        if forget:
            known_walks.clear()
        values = np.random.default_rng(number).standard_normal((8, 6)).astype("float32")
        optimizer.zero_grad()
        loss = model(weft.tensor(values)).square().mean()
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        optimizer.step()
        shown = [loss.detach(), *gradients, *model.buffers()]
        found += [value.numpy().tobytes() for value in shown]
    return found


def test_walks_are_known_beside_running_statistics() -> None:
    expected = steps(6, forget=True)
    found: list[bytes] = []
    assert repeated(lambda: found.extend(steps(6, forget=False))) == 4
    assert found == expected


def test_walks_over_examples_are_not_learned() -> None:
    """Their records are members of batches, which the walk goes over as one."""
    weight = weft.ones(3, requires_grad=True)

    def job() -> None:
        for _ in range(5):
            weight.grad = None
            total = weft.stack([(weight * float(n)).tanh() for n in range(8)]).sum()
            total.backward()

    assert repeated(job) == 0


def others(count: int) -> list[Any]:
    """Pending examples, without gradients: of eight a batch is made, of one none."""
    return [(weft.ones(5) * float(n)).tanh() for n in range(count)]


@pytest.mark.parametrize("counts", [(8, 8, 8, 8), (8, 8, 1, 8), (1, 1, 8, 8)])
def test_others_become_batches_or_not(counts: tuple[int, ...]) -> None:
    x = weft.ones(5, requires_grad=True)
    for number in counts:
        x.grad = None
        pending = others(number)
        (x.exp() * 2).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), (x.detach().exp() * 2).numpy())
        for place, value in enumerate(pending):
            expected = (weft.ones(5) * float(place)).tanh()
            np.testing.assert_array_equal(value.numpy(), expected.numpy())


def test_batches_of_records_are_found_when_the_walk_is_known() -> None:
    """A graph that was alone joins examples like it, which the next walk is over."""
    x = weft.ones(5, requires_grad=True)

    def made(beside: bool) -> np.ndarray:
        x.grad = None
        joined = [(x * float(n)).tanh().sum() for n in range(8)] if beside else []
        pending = [] if beside else others(8)
        total = (x * 2.0).tanh().sum()
        total.backward()
        for value in joined:
            value.backward()
        weft.realize(*pending)
        return np.array(x.grad.numpy())

    alone = [made(False) for _ in range(4)]
    slope = [n * (1 - np.tanh(n) ** 2) for n in (2.0, *range(8))]
    np.testing.assert_allclose(made(True), np.full(5, sum(slope)), rtol=1e-5)
    for values in (*alone, made(False)):
        np.testing.assert_allclose(values, np.full(5, slope[0]), rtol=1e-5)
