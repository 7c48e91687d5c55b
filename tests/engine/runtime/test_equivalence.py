"""Whatever way a program runs, it shows the same: fused or not, batched or not, eager or lazy, on any number of
threads, in planned or fresh memory, first or known, observed or not. Hypothesis looks for the exception."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import random_programs as programs
import random_trees as forests
import weft
from oracle import torch
from properties import QUICK

EXACT, REGROUPED = 0.0, 1e-12

# way -> (arguments of the run, tolerance of gradients)
WAYS: dict[str, tuple[dict[str, Any], float]] = {
    "unfused": ({"fused": False}, EXACT),
    "2 threads": ({"threads": 2}, EXACT),
    "fresh memory": ({"reuse": False}, EXACT),
    "scheduled": ({"interpreter": "none", "cached": False}, EXACT),
    "node by node": ({"interpreter": "every", "cached": False}, EXACT),
    "node by node, by known nodes": ({"interpreter": "every"}, EXACT),
    "no program cache": ({"cached": False}, EXACT),
    "noted program": ({"interpreter": "none"}, EXACT),
    "kept program": ({"interpreter": "none"}, EXACT),
    "known program": ({"interpreter": "none"}, EXACT),
    "comes back soon": ({}, EXACT),
    "eager": ({"eager": True}, REGROUPED),
    "unbatched": ({"batched": False}, REGROUPED),
    "handles kept": ({"hold": True}, REGROUPED),
    "values read in the middle": ({"look": True}, REGROUPED),
}


# What programs warn about is no matter here.
pytestmark = [pytest.mark.usefixtures("verified"), pytest.mark.filterwarnings("ignore")]


@settings(QUICK, max_examples=100)
@given(steps=programs.program_steps, seed=st.integers(0, 1000))
def test_every_way_of_running_shows_the_same(steps: list[programs.Step], seed: int) -> None:
    reference = programs.run(steps, seed=seed)
    for name, (way, tolerance) in WAYS.items():
        result = programs.run(steps, seed=seed, **way)
        assert programs.differences(reference, result, EXACT, tolerance) == [], name


@settings(QUICK, max_examples=40)
@given(steps=programs.program_steps, seed=st.integers(0, 1000))
def test_float32_forward_values_are_the_same_bits(steps: list[programs.Step], seed: int) -> None:
    reference = programs.run(steps, dtype="float32", seed=seed, losses=1)
    for name, (way, _) in WAYS.items():
        result = programs.run(steps, dtype="float32", seed=seed, losses=1, **way)
        assert programs.differences(reference, result, EXACT, 1e-3) == [], name


@settings(QUICK, max_examples=100)
@given(steps=programs.program_steps, seed=st.integers(0, 1000))
def test_random_programs_agree_with_pytorch(steps: list[programs.Step], seed: int) -> None:
    """Except where PyTorch refuses: a saved value that was overwritten."""
    ours = programs.run(steps, seed=seed)
    theirs = programs.run(steps, seed=seed, framework=torch)
    if ours.errors == theirs.errors:
        assert programs.differences(ours, theirs, 1e-9, 1e-9, lenient=True) == []
    else:
        assert [e for e in theirs.errors if e != "RuntimeError"] == [
            e for e in ours.errors if e != "RuntimeError"
        ]


@pytest.mark.parametrize("order", ["together", "one by one", "in parts", "read first"])
@settings(QUICK, max_examples=25)
@given(steps=programs.program_steps, seed=st.integers(0, 1000))
def test_examples_run_batched_as_alone(order: str, steps: list[programs.Step], seed: int) -> None:
    """The same program on several examples: what batches together shows what each shows alone."""
    together = programs.run_examples(steps, seed, order)
    for way in ({"batched": False}, {"eager": True}):
        alone = programs.run_examples(steps, seed, order, **way)
        for one, other in zip(together, alone, strict=True):
            assert programs.differences(one, other, EXACT, REGROUPED) == [], way
    for way in ({}, {"fused": False, "reuse": False}):
        again = programs.run_examples(steps, seed, order, **way)
        for one, other in zip(together, again, strict=True):
            assert programs.differences(one, other, EXACT, EXACT) == [], way


# Programs that once went wrong, as (steps, seed): kept for ever.
ONCE_WRONG = {
    "a kernel read another region of a value that it computed itself": (
        [(75, 57, 70, 84), (103, 85, 99, 17)],
        58,
    ),
    "a region write was given the memory behind a small outside value": (
        [(875, 19, 5, 37), (137, 82, 28, 92), (905, 25, 26, 43)],
        5281,
    ),
    "a region write overwrote what a saved view showed": (
        [(480, 93, 47, 37), (510, 5, 12, 49), (290, 12, 43, 99), (805, 86, 25, 96)],
        1192,
    ),
    "a number saved in a batch came back in the shape of its node": (
        [(28, 76, 17, 52), (193, 72, 37, 62), (886, 36, 2, 41), (408, 83, 81, 36)],
        5052,
    ),
    "x * x and x * x[:1] were taken for one value": ([(545, 85, 22, 1), (199, 43, 1, 29)], 3925),
}


@pytest.mark.parametrize("name", ONCE_WRONG)
def test_programs_that_were_once_wrong(name: str) -> None:
    steps, seed = ONCE_WRONG[name]
    reference = programs.run(steps, seed=seed)
    for way, tolerance in WAYS.values():
        assert (
            programs.differences(reference, programs.run(steps, seed=seed, **way), EXACT, tolerance)
            == []
        )


def test_x_times_a_slice_of_x_is_not_x_squared() -> None:
    x = weft.tensor([-2.0, 3.0, 4.0])
    y = x.clone()
    squared, scaled = y * y, y * y[:1]
    assert squared.tolist() == [4, 9, 16]
    assert scaled.tolist() == [4, -6, -8]


# -- recursive cells on trees ----------------------------------------------------------------------


def assert_agree(ours: list[Any], theirs: list[Any], tolerance: float) -> None:
    """Two lists of arrays; a gradient that nobody asked for may be None or zeros."""
    assert len(ours) == len(theirs)
    for number, (x, y) in enumerate(zip(ours, theirs, strict=True)):
        if x is None or y is None:
            assert (x is None or not x.any()) and (y is None or not y.any()), number
        else:
            assert programs.agree(x, y, tolerance), (number, x, y)


@pytest.mark.parametrize("way", forests.WAYS, ids=lambda way: way.__name__)
@settings(QUICK, max_examples=4)
@given(trees=forests.trees)
def test_batched_trees_are_unbatched_trees(way: Any, trees: list[forests.Tree]) -> None:
    """Values and gradients of recursive cells, batched, unbatched, eager, and twice."""
    with programs.running(batched=False):
        alone = way(forests.Forest(weft), trees)
    together = way(forests.Forest(weft), trees)
    assert_agree(together, alone, REGROUPED)
    with programs.running(threads=2):
        assert_agree(way(forests.Forest(weft), trees), together, EXACT)
    with programs.running(fused=False, reuse=False, cached=False):
        assert_agree(way(forests.Forest(weft), trees), together, EXACT)


@pytest.mark.parametrize("way", forests.WAYS, ids=lambda way: way.__name__)
@settings(QUICK, max_examples=3)
@given(trees=forests.trees)
def test_trees_agree_with_pytorch(way: Any, trees: list[forests.Tree]) -> None:
    assert_agree(way(forests.Forest(weft), trees), way(forests.Forest(torch), trees), 1e-11)


@settings(QUICK, max_examples=10)
@given(trees=forests.trees)
def test_forward_values_of_trees_are_the_same_bits(trees: list[forests.Tree]) -> None:
    def values(**way: Any) -> list[Any]:
        with programs.running(**way):
            return forests.numbers(forests.Forest(weft, dtype="float32").losses(trees))

    reference = values()
    for way in (
        {"batched": False},
        {"eager": True},
        {"fused": False},
        {"threads": 2},
        {"reuse": False},
    ):
        assert_agree(values(**way), reference, EXACT)
