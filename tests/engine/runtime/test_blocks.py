"""Programs that read rows of batches as one value are known by how the rows lie, and by that alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.engine.frontend.resolve import value_of
from weft.engine.runtime.blocks import ValuesByBlock

ROWS, WIDTH = 16, 4


def searches(function: Callable[[], object]) -> int:
    """How often a function's work is searched for batches."""
    with weft.profiler.profile() as watched:
        function()
    return sum(event["name"] == "weft::batch" for event in watched.data()["events"])


def turn(states: list[weft.Tensor], weight: weft.Tensor) -> list[weft.Tensor]:
    """Each state through a layer of its own line, computed."""
    made = [(state @ weight).tanh() for state in states]
    weft.realize(*made)
    return made


def expected(states: list[Any], weight: Any, turns: int) -> Any:
    rows = np.stack(states)
    for _ in range(turns):
        rows = np.tanh(rows @ weight)
    return rows


def start() -> tuple[list[weft.Tensor], weft.Tensor]:
    weft.manual_seed(1)
    states = [weft.randn(WIDTH) for _ in range(ROWS)]
    weight = weft.randn(WIDTH, WIDTH)
    weft.realize(weight, *states)
    return states, weight


def test_rounds_over_rows_of_batches_are_known() -> None:
    states, weight = start()
    with weft.no_grad():
        for _ in range(5):
            states = turn(states, weight)

        def more() -> None:
            nonlocal states
            for _ in range(4):
                states = turn(states, weight)

        assert searches(more) == 0
        with weft.explain() as report:  # which is told of every batch
            more()
    assert [batch.size for run in report.runs for batch in run.batches] == [ROWS] * 8


@pytest.mark.parametrize("seed", range(6))
def test_values_do_not_depend_on_where_rows_lie(seed: int) -> None:
    states, weight = start()
    arrays = [state.numpy().copy() for state in states]
    order = random.Random(seed)
    with weft.no_grad():
        for step in range(12):
            states = turn(states, weight)
            if step % 3 == 2:  # another order, and some rows in memory of their own
                places = list(range(ROWS))
                order.shuffle(places)
                states = [states[place] for place in places]
                arrays = [arrays[place] for place in places]
                for place in order.sample(range(ROWS), seed):
                    states[place] = weft.from_numpy(states[place].numpy().copy())
    found = np.stack([state.numpy() for state in states])
    np.testing.assert_allclose(found, expected(arrays, weight.numpy(), 12), rtol=2e-5, atol=1e-6)


def test_a_row_that_is_written_to_is_read_anew() -> None:
    states, weight = start()
    with weft.no_grad():
        for _ in range(6):
            states = turn(states, weight)
        before = np.stack([state.numpy() for state in states])
        states[3].mul_(2)
        after = turn(states, weight)
    before[3] *= 2
    np.testing.assert_allclose(
        np.stack([state.numpy() for state in after]), np.tanh(before @ weight.numpy()), rtol=2e-5
    )


def test_a_block_is_covered_by_its_rows_or_is_none() -> None:
    states, weight = start()
    with weft.no_grad():
        made = turn(states, weight)
    nodes = [value_of(each) for each in made]
    whole = nodes[0].quotient
    block = ValuesByBlock(nodes).block_of(whole)
    assert block is not None
    assert sorted(block.places) == list(range(ROWS))
    assert sorted(block.distances) == [4 * WIDTH * row for row in range(ROWS)]
    assert ValuesByBlock(nodes[1:]).block_of(whole) is None
    assert ValuesByBlock(nodes).block_of(value_of(weight)) is None
