"""Random programs of integers, masks, constants, views and indices show what they show in PyTorch, to the bit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import random_index_programs as programs
from properties import QUICK
from small_budgets import NODES

torch = pytest.importorskip("torch")


# What programs warn about is no matter here.
pytestmark = [pytest.mark.usefixtures("verified"), pytest.mark.filterwarnings("ignore")]


@settings(QUICK, max_examples=100)
@given(steps=programs.program_steps, seed=st.integers(0, 1000))
def test_they_agree_with_pytorch(steps: list[programs.Step], seed: int) -> None:
    assert programs.compare(steps, seed, torch, {}) == []


@settings(QUICK, max_examples=50)
@given(steps=programs.program_steps, seed=st.integers(0, 1000))
def test_their_gradients_agree(steps: list[programs.Step], seed: int) -> None:
    assert programs.compare(steps, seed, torch, {"writing": False}) == []


@settings(QUICK, max_examples=40)
@given(steps=programs.program_steps, seed=st.integers(0, 1000))
def test_several_examples_agree(steps: list[programs.Step], seed: int) -> None:
    """What has been batched, and what has been read at once."""
    assert programs.compare(steps, seed, torch, {"examples": 3}) == []
    assert programs.compare(steps, seed, torch, {"look": True}) == []


@settings(QUICK, max_examples=60)
@given(
    steps=programs.program_steps,
    seed=st.integers(0, 1000),
    nodes=st.sampled_from(NODES),
    writing=st.booleans(),
    examples=st.sampled_from([1, 3]),
)
def test_they_agree_whenever_pending_work_runs(
    steps: list[programs.Step], seed: int, nodes: int, writing: bool, examples: int
) -> None:
    way = {"nodes": nodes, "writing": writing, "examples": examples}
    assert programs.compare(steps, seed, torch, way) == []


# Programs that once went wrong, as (steps, seed, way): kept for ever.
ONCE_WRONG: dict[str, tuple[list[programs.Step], int, dict[str, object]]] = {
    "several indices of a number wrote behind it": (
        [(222, 30, 51, 50), (79, 85, 57, 75), (86, 61, 45, 30)],
        54,
        {},
    ),
}


@pytest.mark.parametrize("name", ONCE_WRONG)
def test_programs_that_were_once_wrong(name: str) -> None:
    steps, seed, way = ONCE_WRONG[name]
    assert programs.compare(steps, seed, torch, way) == []
