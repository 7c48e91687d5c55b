"""Which graphs are searched for batches: those with enough nodes for each step of their longest way, whatever their
size; and products by one weight."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

UNARY = ("tanh", "sin", "neg", "square")
BINARY = ("add", "sub", "mul", "maximum")


def column(seed: int, size: int = 8) -> Any:
    return weft.tensor(np.random.default_rng(seed).standard_normal(size).astype("float32"))


def batches(work: Callable[[], Any]) -> list[int]:
    """How many members the batches of some work have, forward and backward."""
    with weft.explain() as report:
        work()
        weft.realize()
    return [made.size for run in report.runs for made in run.batches]


def formula(draw: random.Random, leaves: list[Any], operations: int) -> Any:
    if operations == 0:
        return draw.choice(leaves)
    if operations == 1 or draw.random() < 0.4:
        return getattr(weft, draw.choice(UNARY))(formula(draw, leaves, operations - 1))
    left = draw.randrange(operations)
    one, other = formula(draw, leaves, left), formula(draw, leaves, operations - 1 - left)
    return getattr(weft, draw.choice(BINARY))(one, other)


@pytest.mark.parametrize("seed", range(5))
def test_one_formula_is_too_narrow(seed: int) -> None:
    constants = column(100, 3).requires_grad_()
    leaves = [column(n) for n in range(3)] + list(constants)
    assert batches(lambda: formula(random.Random(seed), leaves, 30).sum().backward()) == []
    assert constants.grad is not None


@pytest.mark.parametrize("examples", [8, 24])
def test_one_formula_on_many_examples_is_wide(examples: int) -> None:
    columns = [column(n) for n in range(examples)]
    found = batches(lambda: weft.realize(*[(x.tanh() * x).sin().square() for x in columns]))
    assert found == [examples] * 4


@pytest.mark.parametrize("examples", [6, 7])
def test_products_by_one_weight_go_together_in_narrow_graphs(examples: int) -> None:
    weight, states = column(0, 64).reshape(8, 8), [column(n) for n in range(examples)]
    weft.realize(weight)

    def chains() -> None:
        rows = [state.reshape(1, 8) for state in states]
        for _ in range(12):
            rows = [(row @ weight).tanh() for row in rows]
        weft.realize(*rows)

    assert batches(chains) == [examples] * 24


def test_products_that_do_not_meet_are_not_searched_for() -> None:
    """Each of six chains goes by weights of its own order."""
    weights = [column(n, 64).reshape(8, 8) for n in range(6)]
    states = [column(n) for n in range(6)]
    weft.realize(*weights)

    def chains() -> None:
        rows = [state.reshape(1, 8) for state in states]
        for step in range(12):
            rows = [(row @ weights[(n + step) % 6]).tanh() for n, row in enumerate(rows)]
        weft.realize(*rows)

    assert batches(chains) == []


def test_gradients_of_narrow_graphs_are_those_of_single_nodes() -> None:
    """Reading the same entry of a parameter many times, in a graph without batches."""
    constants = column(100, 3).requires_grad_()
    loss = (constants[1] * constants[1] + constants[2].sin() * constants[1]).tanh().sum()
    loss.backward()
    _, b, c = constants.detach().double().numpy()
    slope = 1 - np.tanh(b * b + np.sin(c) * b) ** 2
    wanted = [0, slope * (2 * b + np.sin(c)), slope * b * np.cos(c)]
    np.testing.assert_allclose(constants.grad.numpy(), wanted, rtol=2e-5)
