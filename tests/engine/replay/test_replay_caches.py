"""What is replayed is kept in caches of one kind: bounded, without what is not used, and forgotten at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
from weft import optim
from weft.config import config
from weft.engine.backward.replay import known_walks as _walks  # noqa: F401 - makes its cache
from weft.engine.replay import cache
from weft.engine.runtime import executable_cache as _flushes  # noqa: F401


@pytest.fixture(autouse=True)
def nothing_known(known_soon: None) -> Iterator[None]:
    weft.realize()
    cache.clear()
    yield
    cache.clear()


def flush(size: int) -> Any:
    """A structure of its own for each size."""
    return (weft.full((size,), 0.5) * 2 + 1).tanh().sum().item()


def walk(size: int) -> Any:
    x = weft.full((size,), 0.5, requires_grad=True)
    (x.tanh() * x).sum().backward()
    return x.grad.tolist()


def call(size: int) -> Any:
    return weft.nn.functional.pad(weft.full((1, size), 0.5), (1, 2), value=2.0).tolist()


JOBS: dict[str, Callable[[int], Any]] = {"flushes": flush, "walks": walk, "calls": call}


@pytest.fixture(params=JOBS)
def client(request: Any) -> Iterator[str]:
    """The name of a cache; its bound is what it was afterwards."""
    held = cache.CACHES[request.param]
    previous = held.most_bytes
    yield request.param
    held.most_bytes = previous


def hits(name: str, size: int) -> int:
    before = cache.CACHES[name].counters["hits"]
    JOBS[name](size)
    return int(cache.CACHES[name].counters["hits"] - before)


def learn(name: str, size: int) -> None:
    for _ in range(4):
        JOBS[name](size)


def test_a_cache_is_bounded(client: str) -> None:
    held = cache.CACHES[client]
    learn(client, 3)
    held.most_bytes = 4 * held.nbytes
    evicted = held.counters["evicted"]
    expected = [JOBS[client](size) for size in range(4, 24)]
    for size in range(4, 24):
        learn(client, size)
        assert held.nbytes <= held.most_bytes
    assert held.counters["evicted"] - evicted >= 10
    assert 0 < len(held) <= 8
    assert [JOBS[client](size) for size in range(4, 24)] == expected


def test_what_is_used_stays(client: str) -> None:
    """One kind comes all the time, among many that come a few times."""
    held = cache.CACHES[client]
    learn(client, 3)
    held.most_bytes = 4 * held.nbytes
    for size in range(4, 24):
        assert hits(client, 3) == 1
        learn(client, size)


def test_the_last_entry_stays_whatever_it_takes(client: str) -> None:
    cache.CACHES[client].most_bytes = 1
    learn(client, 3)
    assert len(cache.CACHES[client]) == 1
    assert hits(client, 3) == 1


def test_all_is_forgotten_at_once() -> None:
    for name in JOBS:
        learn(name, 3)
        assert hits(name, 3) == 1
    cache.clear()
    for name in JOBS:
        assert len(cache.CACHES[name]) == cache.CACHES[name].nbytes == 0
        assert hits(name, 3) == 0


def test_one_switch_turns_all_off(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learn(client, 3)
    monkeypatch.setattr(config, "cache", False)
    assert hits(client, 3) == 0
    for size in range(4, 8):
        learn(client, size)
    assert len(cache.CACHES[client]) == 1


def test_what_has_come_once_is_noted_and_not_kept(client: str) -> None:
    counters = cache.CACHES[client].counters
    before = dict(counters)
    for size in range(30, 40):
        JOBS[client](size)
    assert counters["noted"] - before["noted"] >= 10
    assert counters["stored"] == before["stored"]


def test_one_line_says_what_is_kept() -> None:
    for name in JOBS:
        learn(name, 3)
    line = cache.text()
    assert line.startswith("replay: ") and "\n" not in line
    assert all(f"{name} " in line for name in JOBS)


def updated(steps: int = 2) -> list[Any]:
    """Parameters after a few steps of an optimizer, each of them alike with two others."""
    weft.manual_seed(0)
    given = [weft.randn(3, requires_grad=True) for _ in range(18)]
    optimizer = optim.Adam(given, lr=0.1)
    for step in range(steps + 6):
        for number, parameter in enumerate(given):
            late = step < number % 6  # their numbers of steps differ
            parameter.grad = None if late else parameter.detach().sin()
        optimizer.step()
    return [parameter.tolist() for parameter in given]


def test_updates_of_one_step_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, counters = updated(), cache.tally["updates"]
    before, hits = counters["evicted"], counters["hits"]
    updated()
    assert counters["hits"] > hits and counters["evicted"] == before
    monkeypatch.setattr(cache, "MOST_BYTES", 1)
    assert updated() == expected
    assert counters["evicted"] > before


def test_updates_heed_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, counters = updated(), cache.tally["updates"]
    monkeypatch.setattr(config, "cache", False)
    before = dict(counters)
    assert updated() == expected
    assert dict(counters) == before
