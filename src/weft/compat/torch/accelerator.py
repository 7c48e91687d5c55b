"""`weft.accelerator`: what programs ask about devices of any kind: there is none but the CPU."""

from __future__ import annotations

from typing import Any

from weft.cuda import current_device as current_device_index
from weft.cuda import current_stream, device_count, empty_cache, is_available, synchronize
from weft.cuda import set_device as set_device_index

__all__ = [
    "current_accelerator", "current_device_index", "current_stream", "device_count", "empty_cache", "is_available",
    "set_device_index", "synchronize",
]  # fmt: skip


def current_accelerator(check_available: bool = False) -> Any:
    """The device beside the CPU: none."""
    return
