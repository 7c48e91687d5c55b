"""Batches that are known: they are what a search forms, whatever came between, and everything else stays as it is."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import random_programs as programs
import random_trees
import weft
from properties import QUICK
from weft import nn
from weft.engine.ir.batch import Batch
from weft.engine.ir.tape import tape
from weft.engine.pipeline import driver, record_text
from weft.engine.pipeline.batching import batch, known_groups
from weft.engine.pipeline.segment_index import SegmentIndex
from weft.engine.replay import cache, conditions
from weft.errors import VerificationError
from weft.testing.tuned import tuned

TIMES = 5


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What random programs warn about is no matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def verifying() -> Iterator[None]:
    before = conditions.set_verifying(True)
    yield
    conditions.set_verifying(before)


@pytest.fixture
def narrow() -> Iterator[None]:
    """Room for a few structures only."""
    held = cache.CACHES["batches"]
    before, held.most_bytes = held.most_bytes, 60_000
    yield
    held.most_bytes = before


def hits() -> int:
    return int(known_groups.counters["hits"])


def terms_of(info: Any) -> Any:
    """What a batch or a gather is made of."""
    if isinstance(info, Batch):
        return info.flags, info.count, info.axis
    return list(info) if isinstance(info, SegmentIndex) else None


def formed(record: Callable[[], object]) -> tuple[Any, ...]:
    """What a search makes of what a function records: each node's row, and what is pending then."""
    weft.realize()
    kept = record()
    nodes = tape().pending()
    found = driver.form_batches(tape())
    after = tape().pending()
    places = {node: number for number, node in enumerate(after)}
    rows = [
        (
            None if node.quotient is None else places[node.quotient],
            node.qrow,
            node in places,
            node.state,
            node.offset if node.state else 0,
            node.strides,
            node.batch_seen,
            node.external_refs,
            node.saves,
        )
        for node in nodes
    ]
    batches = [terms_of(node.info) for node in after]
    shapes = [
        (node.operand_shapes, node.residual_mask, node.batch_seen, node.external_refs, node.saves)
        for node in after
    ]
    del kept
    return found, rows, record_text.text(after), batches, shapes


def searched(record: Callable[[], object]) -> tuple[Any, ...]:
    cache.clear()
    return formed(record)


# -- equal to what is searched -------------------------------------------------------------------------------------


def forests() -> st.SearchStrategy[list[Any]]:
    return st.lists(random_trees.trees, min_size=1, max_size=3)


def losses_of(forest: random_trees.Forest, trees: list[Any]) -> Callable[[], Any]:
    return lambda: forest.losses(trees)


@settings(QUICK, max_examples=20)
@given(several=forests(), order=st.lists(st.integers(0, 2), min_size=9, max_size=14))
def test_random_trees_in_turns_become_the_batches_that_a_search_forms(
    several: list[Any], order: list[int]
) -> None:
    forest = random_trees.Forest(weft)
    jobs = [losses_of(forest, trees) for trees in several]
    expected = [searched(job) for job in jobs]
    cache.clear()
    for number in order:
        assert formed(jobs[number % len(jobs)]) == expected[number % len(jobs)]


def test_trees_that_come_again_are_not_searched_again() -> None:
    forest = random_trees.Forest(weft)
    job = losses_of(forest, [((0, 1), 2), (3, (4, 5)), ((1, 2), (3, 4))])
    expected = searched(job)
    before = hits()
    for _ in range(TIMES):
        assert formed(job) == expected
    assert expected[0] is True
    assert hits() - before == TIMES - 1


@settings(QUICK, max_examples=25)
@given(
    steps=programs.program_steps,
    seed=st.integers(0, 1000),
    order=st.sampled_from(["together", "in parts"]),
)
def test_random_programs_show_the_same_when_their_batches_are_known(
    steps: list[programs.Step], seed: int, order: str
) -> None:
    cache.clear()
    expected = programs.run_examples(steps, seed, order)
    for _ in range(TIMES):
        found = programs.run_examples(steps, seed, order)
        for one, other in zip(found, expected, strict=True):
            assert programs.differences(other, one, 0.0, 0.0) == []


@settings(QUICK, max_examples=20)
@given(several=forests(), order=st.lists(st.integers(0, 2), min_size=9, max_size=14))
def test_gradients_of_trees_whose_batches_are_known(several: list[Any], order: list[int]) -> None:
    """To the bit, in turns, with more structures than there is room for."""
    held = cache.CACHES["batches"]
    before = held.most_bytes

    def whole(trees: list[Any]) -> list[Any]:
        return random_trees.whole(random_trees.Forest(weft), trees)

    expected = []
    for trees in several:
        cache.clear()
        expected.append(whole(trees))
    try:
        held.most_bytes = 60_000
        for number in order:
            found = whole(several[number % len(several)])
            for value, reference in zip(found, expected[number % len(several)], strict=True):
                np.testing.assert_array_equal(value, reference)
    finally:
        held.most_bytes = before


@pytest.mark.usefixtures("verifying")
@settings(QUICK, max_examples=30)
@given(several=forests(), order=st.lists(st.integers(0, 2), min_size=9, max_size=14))
def test_what_is_known_is_what_is_searched_node_by_node(
    several: list[Any], order: list[int]
) -> None:
    cache.clear()
    forest = random_trees.Forest(weft)
    for number in order:
        random_trees.whole(forest, several[number % len(several)])


# -- rounds of weft.map --------------------------------------------------------------------------------------------


class Agents:
    """Examples that decide by values how long they go on; they learn."""

    def __init__(self) -> None:
        weft.manual_seed(3)
        self.cell, self.head = nn.GRUCell(6, 6), nn.Linear(6, 1)
        self.data = weft.randn(8, 5, 6)
        self.parameters = [*self.cell.parameters(), *self.head.parameters()]
        weft.realize(self.data, *self.parameters)

    def losses(self, lengths: list[int], fail: int = -1) -> list[Any]:
        def run(example: tuple[int, int]) -> Any:
            number, length = example
            hidden, total = weft.zeros(6), 0.0
            for step in range(length):
                hidden = self.cell(self.data[number][step], hidden)
                score = self.head(hidden).square().sum()
                if score.item() < 0:
                    break
                if number == fail and step == length - 1:
                    raise ValueError(f"example {number}")
                total = total + score
            return total

        return weft.map(run, list(enumerate(lengths)))

    def learn(self, lengths: list[int]) -> list[Any]:
        losses = self.losses(lengths)
        weft.stack(losses).mean().backward()
        found = [loss.item() for loss in losses] + [p.grad.numpy() for p in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        return found


def same(one: list[Any], other: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_rounds_with_gradients_are_not_searched_again() -> None:
    agents, lengths = Agents(), [5] * 8
    expected = agents.learn(lengths)
    agents.learn(lengths)
    before, stored = hits(), known_groups.counters["stored"]
    for _ in range(3):
        assert same(agents.learn(lengths), expected)
    assert hits() - before >= 3 * 5
    assert known_groups.counters["stored"] == stored


@settings(QUICK, max_examples=25)
@given(
    kinds=st.lists(st.lists(st.integers(1, 5), min_size=3, max_size=8), min_size=1, max_size=3),
    order=st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 7)), min_size=6, max_size=10),
)
def test_rounds_of_changing_examples_some_of_which_fail(
    kinds: list[list[int]], order: list[tuple[int, int]]
) -> None:
    agents = Agents()
    expected = []
    for lengths in kinds:
        cache.clear()
        expected.append(agents.learn(lengths))
    cache.clear()
    for number, fail in order:
        lengths = kinds[number % len(kinds)]
        if 0 <= fail < len(lengths):
            with pytest.raises(ValueError, match=f"example {fail}"):
                agents.losses(lengths, fail)
        assert same(agents.learn(lengths), expected[number % len(kinds)])


@pytest.mark.usefixtures("narrow")
def test_more_structures_than_there_is_room_for() -> None:
    agents, draw = Agents(), random.Random(5)
    kinds = [[draw.randrange(1, 6) for _ in range(8)] for _ in range(6)]
    expected = [agents.learn(lengths) for lengths in kinds]
    evicted = known_groups.counters["evicted"]
    for _ in range(4):
        for lengths, reference in zip(kinds, expected, strict=True):
            assert same(agents.learn(lengths), reference)
    assert known_groups.counters["evicted"] > evicted
    assert cache.CACHES["batches"].nbytes <= 60_000


# -- what tells structures apart -----------------------------------------------------------------------------------


def told_apart(one: Callable[[], object], other: Callable[[], object]) -> None:
    """Neither is taken for the other once it is known."""
    expected = [searched(one), searched(other)]
    cache.clear()
    for _ in range(TIMES):
        assert formed(one) == expected[0]
    assert hits() > 0
    for _ in range(TIMES):
        assert formed(other) == expected[1]
        assert formed(one) == expected[0]


def test_where_the_values_lie_that_nodes_read() -> None:
    table = weft.arange(64.0).reshape(8, 8) * 1.0
    weft.realize(table)
    rows = list(table.unbind())
    apart = [row.clone() for row in rows]
    weft.realize(*rows, *apart)
    told_apart(
        lambda: [row.exp().tanh().sin().cos() for row in rows],
        lambda: [row.exp().tanh().sin().cos() for row in apart],
    )


def test_the_order_of_the_rows_that_nodes_read() -> None:
    table = weft.arange(64.0).reshape(8, 8) * 1.0
    rows = list(table.unbind())
    weft.realize(*rows)
    told_apart(
        lambda: [row.exp().tanh().sin().cos() for row in rows],
        lambda: [row.exp().tanh().sin().cos() for row in reversed(rows)],
    )


def test_which_weight_is_shared() -> None:
    weft.manual_seed(0)
    weights = [weft.randn(6, 6, requires_grad=True) for _ in range(8)]
    rows = [weft.randn(6) for _ in range(8)]
    weft.realize(*weights, *rows)
    told_apart(
        lambda: [(row @ weights[0]).tanh() for row in rows],
        lambda: [(row @ weights[n % 2]).tanh() for n, row in enumerate(rows)],
    )


def test_which_values_have_gradients() -> None:
    weft.manual_seed(0)
    weight = weft.randn(6, 6, requires_grad=True)
    plain = [weft.randn(6) for _ in range(8)]
    leaves = [weft.randn(6, requires_grad=n % 2 == 0) for n in range(8)]
    weft.realize(weight, *plain, *leaves)
    told_apart(
        lambda: [(row @ weight * 2).tanh() for row in plain],
        lambda: [(row @ weight * 2).tanh() for row in leaves],
    )


def test_the_calls_that_recorded_nodes() -> None:
    weft.manual_seed(0)
    weight = weft.randn(6, 6)
    rows = [weft.randn(6) for _ in range(8)]
    weft.realize(weight, *rows)

    def one() -> list[Any]:
        return [(row @ weight).tanh() for row in rows]

    def other() -> list[Any]:
        found = [(row @ weight).tanh() for row in rows[:4]]
        return found + [(row @ weight).tanh() for row in rows[4:]]

    told_apart(one, other)


def test_which_nodes_are_held() -> None:
    weft.manual_seed(0)
    rows = [weft.randn(6) for _ in range(24)]
    weft.realize(*rows)

    def summed(held: bool) -> list[Any]:
        kept, sums = [], []
        for n in range(4):
            total = rows[6 * n]
            for row in rows[6 * n + 1 : 6 * n + 6]:
                total = total + row
                if held:
                    kept.append(total)
            sums.append(total)
        return kept + sums

    told_apart(lambda: summed(False), lambda: summed(True))


def test_other_thresholds() -> None:
    weft.manual_seed(0)
    weight = weft.randn(6, 6)
    rows = [weft.randn(6) for _ in range(8)]
    weft.realize(weight, *rows)

    def job() -> list[Any]:
        return [(row @ weight).tanh() for row in rows]

    expected = searched(job)
    for _ in range(TIMES):
        formed(job)
    with tuned("batching", fewest_rows=9, fewest_lone_rows=99):
        for _ in range(TIMES):
            assert formed(job)[0] is not True
    assert formed(job) == expected


# -- who looks on --------------------------------------------------------------------------------------------------


def test_searches_are_made_while_they_are_watched() -> None:
    forest = random_trees.Forest(weft)
    job = losses_of(forest, [((0, 1), 2), (3, (4, 5)), ((1, 2), (3, 4))])
    for _ in range(TIMES):
        formed(job)
    told: list[Any] = []
    before = batch.watch(lambda notes, quotients: told.append(len(quotients)))
    try:
        formed(job)
    finally:
        batch.watch(before)
    assert told and told[0] > 0


@pytest.mark.usefixtures("verifying")
def test_a_search_that_finds_something_else_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    weft.manual_seed(0)
    rows = [weft.randn(6) for _ in range(8)]
    weft.realize(*rows)

    def job() -> list[Any]:
        return [row.exp().tanh().sin().cos() for row in rows]

    for _ in range(TIMES):
        formed(job)
    monkeypatch.setattr(batch, "form_groups", lambda nodes, notes: [])
    with pytest.raises(VerificationError, match="batching"):
        formed(job)
