"""The choice between tiers: what is estimated, what is rented until it would have been bought, and what is counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import weft
from weft.engine.frontend.resolve import value_of
from weft.engine.runtime import executable_cache, tier_choice
from weft.testing.tuned import tuned

X = weft.linspace(-1, 1, 12)


@pytest.fixture(autouse=True)
def costs() -> Iterator[None]:
    """No flush has come before; a node takes 1 us alone, nothing in a known program, and 2.5 us to be scheduled."""
    weft.realize(X)
    executable_cache.clear()
    none = {"schedule_flush_ns": 0, "known_ns": 0, "traffic_ns_of_a_kb": 0}
    with tuned("tiering", schedule_ns=2500, call_ns=1000, **none):
        yield


def chain(length: int) -> list[float]:
    x = X
    for _ in range(length):
        x = x.sin()
    values: list[float] = x.tolist()
    return values


def counted(length: int, times: int = 1) -> dict[str, float]:
    """What the counters say of running a chain so often."""
    before = dict(tier_choice.counters)
    for _ in range(times):
        chain(length)
    return {name: value - before[name] for name, value in tier_choice.counters}


def test_what_interpreting_costs_is_estimated_by_node() -> None:
    chain(31)
    counts = counted(37)
    assert (counts["interpreted"], counts["lost_ns"], counts["scheduled"]) == (1, 37_000, 0)


def test_runs_of_a_known_program_repay_what_scheduling_it_took() -> None:
    chain(41)
    chain(41)  # scheduled, compiled, and kept
    counts = [counted(41) for _ in range(5)]
    scheduled = [each["scheduled"] for each in counts]
    assert sum(scheduled) <= 1 and sum(each["interpreted"] for each in counts) == 0
    assert sum(each["repaid"] for each in counts) == 1
    assert counted(41, 5)["repaid"] == 0  # once


def test_what_takes_turns_is_interpreted_until_that_has_cost_as_much() -> None:
    """More structures than come back soon: twice at 1 us a node, for 2.5 us a node of scheduling."""
    lengths = range(50, 62)
    rounds = [[counted(length)["interpreted"] for length in lengths] for _ in range(4)]
    assert [sum(each) for each in rounds] == [12, 12, 0, 0]


def test_one_that_comes_back_soon_is_interpreted_for_a_part_of_the_price() -> None:
    """Ten runs at 1 us a node for 10.5 us a node of scheduling, or a part of them."""
    for length, part, runs in ((70, 1.0, 10), (71, 0.5, 5), (72, 0.25, 2), (73, 0.0, 1)):
        with tuned("tiering", schedule_ns=10_500, soon_part=part):
            interpreted = [counted(length)["interpreted"] for _ in range(12)]
        assert interpreted == [1] * runs + [0] * (12 - runs), part


def test_looks_of_unknown_flushes_are_put_off_until_forgotten() -> None:
    pending = [value_of(X.sin())]
    tries = []
    for _ in range(20):
        tries.append(tier_choice.may_know_most(pending))
        tier_choice.note_misses(pending, 1)
    assert tries[0] and not all(tries)
    executable_cache.clear()
    assert tier_choice.may_know_most(pending)


def test_values_do_not_depend_on_the_tier() -> None:
    shown = []
    for _ in range(4):
        shown.append(repr([chain(length) for length in range(80, 92)]))
    assert len(set(shown)) == 1


def test_explain_shows_the_estimates() -> None:
    with weft.explain() as report:
        chain(95)
        chain(95)
    (line,) = [line for line in str(report).splitlines() if line.startswith("tiers: ")]
    assert line.startswith(
        "tiers: 1 flushes node by node, about 0.1 ms slower than known programs; "
    )
