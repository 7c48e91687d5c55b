"""Equal operations are one batch also where they differ in which operands have a gradient, if they save nothing."""

from __future__ import annotations

from collections.abc import Callable
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

KINDS = {
    "add": lambda lib, a, b: a + b,
    "sub": lambda lib, a, b: a - b,
    "cat": lambda lib, a, b: lib.cat([a, b]),
    "stack": lambda lib, a, b: lib.stack([a, b]),
    "mul": lambda lib, a, b: a * b,  # saves what it reads: equal in this or apart
    "where": lambda lib, a, b: lib.where(a > 0, a, b),
    "maximum": lambda lib, a, b: lib.maximum(a, b),
}


pytestmark = pytest.mark.usefixtures("verified")


def alone(function: Callable[[], Any]) -> Any:
    before, config.batch = config.batch, False
    try:
        return function()
    finally:
        config.batch = before


def values_of(lib: Any, count: int, seed: int) -> list[Any]:
    draw = np.random.default_rng(seed)
    return [lib.tensor(row.tolist(), dtype=lib.float64) for row in draw.normal(size=(count, 3))]


def outcome(lib: Any, kind: str, flags: list[tuple[bool, bool]], walk: str, seed: int) -> list[Any]:
    """Values and gradients of one operation per example; `flags` says which operands have a gradient."""
    ones, others = values_of(lib, len(flags), seed), values_of(lib, len(flags), seed + 1)
    for one, other, (first, second) in zip(ones, others, flags, strict=True):
        one.requires_grad_(first)
        other.requires_grad_(second)
    ways = []
    for number, (one, other) in enumerate(zip(ones, others, strict=True)):
        result = KINDS[kind](lib, one * 2, other.sin())
        if walk == "hooked" and number % 2 == 0 and result.requires_grad:
            result.register_hook(lambda g: g * 3)
        if walk == "written":
            result = result.clone().mul_(0.1 * (number + 1))
        if walk == "read":
            result.tolist()
        ways.append((result.tanh() * (number + 1)).sum())
    wanted = ways[1:] if walk == "some" and len(ways) > 1 else ways
    loss = lib.stack(wanted).sum()
    if not loss.requires_grad:
        return [loss.item()]
    leaves = [leaf for leaf in ones + others if leaf.requires_grad]
    if walk == "captured":
        found = lib.autograd.grad(loss, leaves, allow_unused=True)
    else:
        loss.backward(retain_graph=walk == "twice")
        if walk == "twice":
            loss.backward()
        found = [leaf.grad for leaf in leaves]
    return [loss.item(), *(None if g is None else g.tolist() for g in found)]


def agree(one: list[Any], other: list[Any]) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        if a is None or b is None:
            assert a is b
        else:
            np.testing.assert_allclose(a, b, 1e-12, 1e-14)


FLAGS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=3, max_size=9)


WALKS = ["plain", "some", "read", "hooked", "written", "captured", "twice"]


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(QUICK, max_examples=25)
@given(walk=st.sampled_from(WALKS), flags=FLAGS, seed=st.integers(0, 100))
def test_gradients_as_alone_and_as_pytorchs(
    kind: str, walk: str, flags: list[tuple[bool, bool]], seed: int
) -> None:
    together = outcome(weft, kind, flags, walk, seed)
    agree(together, alone(lambda: outcome(weft, kind, flags, walk, seed)))
    agree(together, outcome(torch, kind, flags, walk, seed))


def batches(kind: str) -> list[str]:
    """The batches of one operation on sixteen examples, of which every other has a constant at first."""

    leaves = [weft.zeros(4, requires_grad=True) for _ in range(16)]
    constant = weft.zeros(4)

    def step() -> Any:
        ways = []
        for number, leaf in enumerate(leaves):
            first = leaf.exp() if number % 2 else constant.exp()
            ways.append(KINDS[kind](weft, first, leaf.sin()).tanh().sum())
        return weft.stack(ways).sum()

    lines = stages(step)["batch"].splitlines()
    return [line for line in lines if line.startswith(f"{kind} ")]


@pytest.mark.parametrize("kind", ["add", "sub", "cat"])
def test_what_saves_nothing_is_one_batch(kind: str) -> None:
    (line,) = batches(kind)
    assert line.startswith(f"{kind} x 16 ")


def test_what_saves_its_operands_is_two() -> None:
    assert [line.split()[2] for line in batches("mul")] == ["8", "8"]


def test_rounds_of_different_patterns_meet_in_the_walk() -> None:
    """Fibers that begin with a constant read values between: the walk pulls equal batches of all rounds."""
    weight = weft.randn(4, 4, dtype=weft.float64, requires_grad=True)
    inputs = values_of(weft, 5, 3)

    def program(number: int) -> Any:
        state, losses = weft.zeros(4, dtype=weft.float64), []
        for step in range(2 + number % 3):
            joined = weft.cat([inputs[number], weft.zeros(1, dtype=weft.float64)]) + state
            state = (weight @ joined).tanh()
            if state.sum().item() > 0:
                state = state * 0.5
            losses.append(state.sum() * (step + 1))
        return weft.stack(losses).sum()

    def gradient() -> Any:
        weight.grad = None
        weft.stack(weft.map(program, range(5))).sum().backward()
        return weight.grad.tolist()

    np.testing.assert_allclose(gradient(), alone(gradient), 1e-12, 1e-14)
