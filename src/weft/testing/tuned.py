"""Other thresholds for a while: tests force a decision of the passes by them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.engine.devices.api import default_device
from weft.engine.devices.tuning import replaced


@contextmanager
def tuned(group: str, **fields: object) -> Iterator[None]:
    """Let some fields of a group of the device's `Tuning` have other values inside. Programs that are known stay."""
    device = default_device()
    before = device.tuning
    device.tuning = replaced(before, **{group: replaced(getattr(before, group), **fields)})
    try:
        yield
    finally:
        device.tuning = before


def unfused() -> Any:
    """Inside, every node has a kernel of its own. Bits are the same."""
    return tuned("fusion", most_nodes=1)
