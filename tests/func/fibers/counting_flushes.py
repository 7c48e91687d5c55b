"""Helpers for tests of `weft.map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft.engine.pipeline import driver


def flushes_of(run: Callable[[], Any]) -> tuple[Any, int]:
    """A result, and how many times pending work ran for it."""
    weft.realize()
    before = driver.counters["flushes"]
    result = run()
    return result, driver.counters["flushes"] - before


def collatz(x: Any) -> int:
    """As many reads as its own values ask for."""
    steps = 0
    while x.item() != 1:
        x = x // 2 if (x % 2 == 0).item() else 3 * x + 1
        steps += 1
    return steps
