"""Sums that grow by one row at a time, in trees with many children: levels, and gathers of a single row."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import random_trees as forests
import weft
from random_programs import running
from weft.debug import stages

wide_trees = st.lists(
    st.recursive(
        st.integers(0, forests.WORDS - 1),
        lambda inner: st.lists(inner, min_size=1, max_size=21).map(tuple),
        max_leaves=45,
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=25, deadline=None)
@given(trees=wide_trees)
def test_wide_trees_in_batches_are_trees_one_by_one(dtype: str, trees: list[Any]) -> None:
    """Values of every state to the bit; gradients as sums of other groupings allow."""
    found = []
    for batched in (True, False):
        with running(batched=batched):
            forest = forests.Forest(weft, dtype=dtype)
            losses = forest.losses(trees)
            states = list(forest.states)
            sum(losses[1:], losses[0]).backward()
            weft.realize()
            gradients = forests.numbers(p.grad for p in forest.parameters)
            found.append((forests.numbers([*losses, *states]), gradients))
    (values, gradients), (expected_values, expected) = found
    for one, other in zip(values, expected_values, strict=True):
        assert np.array_equal(one, other)
    limit = 1e-12 if dtype == "float64" else 1e-4
    for one, other in zip(gradients, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert np.allclose(one, other, rtol=limit, atol=limit * np.abs(other).max())


def sums_of(counts: list[int]) -> list[Any]:
    """For each count, a sum of so many rows of one table, a term at a time."""
    table = weft.randn(40, 8, generator=weft.Generator().manual_seed(1), dtype=weft.float64)
    rows = [(table[number] * 2).tanh() for number in range(40)]
    totals = []
    for shift, count in enumerate(counts):
        total = rows[shift]
        for row in rows[shift + 1 : shift + count]:
            total = total + row
        totals.append(total)
    return totals


@pytest.mark.parametrize(
    "counts", [[12], [3, 9, 5], [30, 2], [17, 16, 18], [1, 1, 1, 36], [2, 2, 2, 2, 2]]
)
def test_sums_of_different_lengths(counts: list[int]) -> None:
    totals = sums_of(counts)
    with running(batched=False):
        expected = [total.numpy() for total in sums_of(counts)]
    for one, other in zip(totals, expected, strict=True):
        assert np.array_equal(one.numpy(), other)


def test_a_long_sum_takes_a_few_gathers() -> None:
    """A row at a time, 30 terms are one gather, and not 29 kernels."""
    kept: list[Any] = []
    text = stages(lambda: kept.extend(sums_of([30])))["collect"].partition("tanh(")[2]
    assert "= add(" not in text
    assert text.count("= gather_rows(") == 1


def tree_of(draw: random.Random, height: int) -> Any:
    """A tree of a height, with few or many children of lesser heights."""
    if height == 0:
        return draw.randrange(forests.WORDS)
    count = draw.choice([1, 1, 2, 3, 9, 14])
    heights = [height - 1, *(draw.randrange(height) for _ in range(count - 1))]
    return tuple(tree_of(draw, each) for each in heights)


@pytest.mark.parametrize("seed", range(8))
def test_cells_of_one_level_are_one_batch(seed: int) -> None:
    """A product of the words, and one for each level of the highest tree, whatever the numbers of children."""
    draw = random.Random(seed)
    heights = [draw.choice([2, 4, 6]) for _ in range(6)]
    trees = [tree_of(draw, height) for height in heights]
    forest = forests.Forest(weft)
    lines = stages(lambda: forest.losses(trees))["batch"].splitlines()
    products = [line for line in lines if line.startswith("matmul") and "[1, 12]" in line]
    assert len(products) <= 1 + max(heights)
