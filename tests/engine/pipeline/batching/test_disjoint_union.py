"""Graphs of several examples, given by indices, run as one graph, and show what each shows alone."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from oracle import torch
from properties import QUICK
from weft.config import config
from weft.debug import stages

pytestmark = pytest.mark.usefixtures("verified")

KINDS = 6
WIDTH = 8
WALKS = ["together", "some", "create graph", "twice", "read between"]


class Program:
    """Messages along the edges of random graphs, in any framework."""

    def __init__(self, framework: Any, seed: int) -> None:
        self.framework, self.random = framework, random.Random(seed)
        draws = np.random.RandomState(seed)
        width = self.random.choice([1, 3, WIDTH])
        self.weight = self.leaf(draws.randn(2 * width, width))
        self.kinds = self.leaf(draws.randn(KINDS, width))

    def leaf(self, array: np.ndarray) -> Any:
        return self.framework.tensor(array.astype("f"), requires_grad=True)

    def indices(self, count: int, below: int) -> Any:
        return self.framework.tensor([self.random.randrange(below) for _ in range(count)])

    def graph(self, walk: str) -> Any:
        """The nodes of one graph after some rounds. Shapes: -> (n, width)."""
        nodes, edges = self.random.randint(1, 6), self.random.randint(1, 9)
        state = self.kinds[self.indices(nodes, KINDS)] * 2  # -> (n, width)
        source, target = self.indices(edges, nodes), self.indices(edges, nodes)
        for _ in range(self.random.randint(1, 3)):
            state = self.round(state, source, target)
            if walk == "read between" and self.random.random() < 0.3:
                state.detach().sum().item()
        return state

    def round(self, state: Any, source: Any, target: Any) -> Any:
        framework, fate = self.framework, self.random.random()
        there = state.detach() if fate < 0.2 else state
        pairs = framework.cat([state[source], there[target]], 1)  # -> (e, 2 * width)
        messages = framework.relu(pairs @ self.weight)
        base = state * 0.5 if fate > 0.7 else framework.zeros(state.shape)
        state = base.index_add(0, target, messages) + state
        if fate > 0.9:
            state = state.index_copy(0, framework.tensor([0]), messages[:1])
        return state

    def run(self, walk: str) -> list[np.ndarray]:
        """The values of all graphs and the gradients."""
        states = [self.graph(walk) for _ in range(self.random.randint(2, 10))]
        chosen = states[: max(1, len(states) // 2)] if walk == "some" else states
        loss = self.framework.stack([state.sum(0) for state in chosen]).square().mean()
        if walk == "create graph":
            (slope,) = self.framework.autograd.grad(loss, self.weight, create_graph=True)
            loss = loss + slope.square().sum()
        if walk == "twice":
            loss.backward(retain_graph=True)
        loss.backward()
        gradients = [self.weight.grad.numpy(), self.kinds.grad.numpy()]
        return [*(state.detach().numpy() for state in states), *gradients]


def unbatched(seed: int, walk: str) -> list[np.ndarray]:
    before, config.batch = config.batch, False
    try:
        return Program(weft, seed).run(walk)
    finally:
        config.batch = before


@pytest.mark.parametrize("walk", WALKS)
@settings(QUICK, max_examples=40)
@given(seed=st.integers(0, 10_000))
def test_graphs_show_what_each_shows_alone(walk: str, seed: int) -> None:
    found, alone = Program(weft, seed).run(walk), unbatched(seed, walk)
    for one, other in zip(found[:-2], alone[:-2], strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(found[-2:], alone[-2:], strict=True):
        np.testing.assert_allclose(one, other, 1e-3, 1e-4 * max(1.0, float(abs(other).max())))


@pytest.mark.parametrize("walk", WALKS)
@settings(QUICK, max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_graphs_agree_with_pytorch(walk: str, seed: int) -> None:
    found, expected = Program(weft, seed).run(walk), Program(torch, seed).run(walk)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, 1e-3, 1e-4 * max(1.0, float(abs(other).max())))


def molecules(sizes: list[int], weight: Any, kinds: Any) -> Any:
    """The loss of rings of so many atoms, of which each is sent what its neighbour is."""
    found = []
    for size in sizes:
        state = kinds[weft.tensor([place % KINDS for place in range(size)])]
        source = weft.tensor(list(range(size)))
        target = weft.tensor([(place + 1) % size for place in range(size)])
        messages = (state[source] @ weight).relu()
        found.append(weft.zeros(size, WIDTH).index_add(0, target, messages).sum(0))
    return weft.stack(found).square().mean()


def test_all_graphs_are_read_and_written_at_once() -> None:
    weight = weft.randn(WIDTH, WIDTH, requires_grad=True)
    kinds = weft.randn(KINDS, WIDTH, requires_grad=True)
    sizes = [3, 5, 4, 7, 6, 3, 9, 8]

    def step() -> Any:
        loss = molecules(sizes, weight, kinds * 2)
        loss.backward()
        return loss

    text = stages(step)
    assert f"take_add x {sum(sizes)} [{WIDTH}] (batched, batched, batched)" in text["batch"]
    assert (
        text["fuse"].count(": take_add ->") <= 4
    )  # of all eight: forward, of what was read, of the kinds


def lookups(index: Any) -> list[Any]:
    """A row of each of six tables of three rows."""
    tables = [weft.ones(3, 2) * number for number in range(6)]
    return [table.exp()[index] for table in tables]


def test_indices_that_nobody_has_seen_stay_with_their_table() -> None:
    index = weft.tensor([1.0, 2.0, 5.0]).long()  # 5 would be a row of the next table but one
    for read in lookups(index * 1):
        with pytest.raises(IndexError):
            read.tolist()


def test_a_known_structure_whose_indices_are_no_longer_known_is_another() -> None:
    seen, unseen = weft.tensor([1, 2, 0]), weft.tensor([1.0, 2.0, 5.0])
    for _ in range(4):  # searched, learned and replayed
        assert [read.shape for read in lookups(seen)] == [(3, 2)] * 6
        weft.realize(*lookups(seen))
    for read in lookups(unseen.long()):
        with pytest.raises(IndexError):
            read.tolist()
