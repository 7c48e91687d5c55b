"""The time that a board takes: a share, a bounded first look, and full looks when there is time for them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import Recurrent, recurrent_run

import weft
from weft.board import allowance as allowances
from weft.board.allowance import FIRST_LOOK_SECONDS, Looks, Price


class Clock:
    """Seconds that only the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(allowances, "time", clock)
    return clock


def test_the_first_look_is_bounded_and_full_ones_come_when_they_are_paid(clock: Clock) -> None:
    """A step of a million records: what looks take stays a share of the time, and one takes all apart at last."""
    looks = Looks(0.05)
    records, full, spent = 1_000_000, 0, 0.0
    for _ in range(5000):
        if looks.is_due():
            most, _ = looks.most(1 << 30, 1 << 30)
            full += most >= records
            began = clock.now
            clock.now += 0.01 + (records * looks.record.seconds if most >= records else 0.1)
            looks.allowance.charge(began)
            looks.note_step(records, 100, 4096)
            spent += clock.now - began
            assert spent <= FIRST_LOOK_SECONDS + 0.05 * clock.now + records * looks.record.seconds
        clock.now += 1.0
    assert 3 <= full <= 0.05 * clock.now / (records * looks.record.seconds)


@given(share=st.floats(0, 0.99), records=st.integers(0, 10**7), events=st.integers(0, 10**7))
def test_a_first_look_takes_no_more_than_its_seconds(
    share: float, records: int, events: int
) -> None:
    looks = Looks(share)
    most_records, most_events = looks.most(10**9, 10**9)
    seconds = looks.record.seconds * min(records, most_records)
    seconds += looks.event.seconds * min(events, most_events)
    assert seconds <= FIRST_LOOK_SECONDS * 1.01


def test_a_share_of_one_looks_at_everything() -> None:
    looks = Looks(1)
    assert looks.most(250_000, 400_000) == (250_000, 400_000)
    looks.note_step(10**9, 10**9, 400_000)
    assert looks.is_due()


def test_few_things_say_nothing_of_the_price_of_one() -> None:
    price = Price(1e-3)
    price.note(100.0, 3)
    assert price.seconds == 1e-3
    price.note(1.0, 1000)
    assert price.bought_for(0.5, 10_000) == 500
    assert price.bought_for(math.inf, 7) == 7
    assert price.bought_for(-1.0, 7) == 0


def test_a_dear_graph_is_counted_first_and_shown_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has a bounded picture of the first step, and all of a later one."""
    monkeypatch.setattr(allowances, "SECONDS_A_RECORD", 1.0)
    model = Recurrent()
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
    inputs = [weft.randn(4) for _ in range(6)]

    def step() -> None:
        optimizer.zero_grad()
        weft.stack([model(inputs) for _ in range(10)]).square().mean().backward()
        optimizer.step()

    with weft.board(model, serve=False, share=0.5) as board:
        step()
        assert document(board, 0)["counted"]
        assert not board._looks.is_due()
        board._looks.record.seconds = 1e-9  # as if long ago
        board._looks.note_step(1, 1, 4096)
        board._looks.allowance.spent = 0.0
        board._open_look()
        step()
    assert not document(board, 1)["counted"]
    assert len(document(board, 1)["nodes"]["op"]) > len(document(board, 0)["nodes"]["op"])


def test_at_a_share_of_one_the_first_step_is_whole() -> None:
    assert not document(recurrent_run(steps=1), 0)["counted"]


def document(board: weft.board.Board, step: int) -> Any:
    """The graph of a step."""
    return json.loads(board.run.get(f"graph/{step}") or b"")
