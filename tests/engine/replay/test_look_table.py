"""The table of what structures look like: it finds what was put, and what it holds is bounded."""

from __future__ import annotations

import weft
from weft.engine.replay import cache
from weft.engine.replay.look_table import LookTable


def test_numbers_are_found_and_changed() -> None:
    table = LookTable(128)
    looks = [number * 0x1E3779B97F4A7C1 - (1 << 62) for number in range(60)] + [0, -1]
    for number, look in enumerate(looks):
        assert table.get(look) == -1
        table.put(look, number)
    for number, look in enumerate(looks):
        assert table.get(look) == number
        table.put(look, number + (7 << 16))
    assert [table.get(look) for look in looks] == [n + (7 << 16) for n in range(len(looks))]
    assert len(table) == len(looks)


def test_what_comes_new_without_end_is_bounded() -> None:
    table = LookTable(256)
    for look in range(100_000):
        table.put(look, 1)
        assert table.get(look) == 1
    assert len(table) <= 256
    assert table.nbytes() <= 2 * 256 * 16


def test_what_is_asked_for_stays() -> None:
    table = LookTable(64)
    table.put(-5, 3)
    for look in range(10_000):
        table.put(look, 0)
        if look % 20 == 0:
            assert table.get(-5) == 3
    assert table.get(0) == -1


def test_clearing_forgets_everything() -> None:
    table = LookTable(64)
    for look in range(200):
        table.put(look, 0)
    table.clear()
    assert len(table) == 0
    assert table.nbytes() == 0
    assert table.get(199) == -1
    table.put(199, 4)
    assert table.get(199) == 4


def test_new_graphs_leave_only_notes() -> None:
    """A hundred graphs of which no two are alike: every cache notes them, none keeps what it learned of one."""
    cache.clear()
    leaf = weft.tensor([0.5, -0.25]).requires_grad_()
    for number in range(100):
        value = leaf
        for bit in range(7):
            value = value.tanh() if number >> bit & 1 else value.sin()
        leaf.grad = None
        value.sum().backward()
        assert leaf.grad is not None
        float(leaf.grad[0])
    kept = {name: len(one) for name, one in cache.CACHES.items()}
    assert kept["walks"] == 0
    assert kept["flushes"] <= 2  # the read of one element of a gradient comes again
