"""`weft.mps`: questions about Apple's graphics processors; there is none."""

from __future__ import annotations

from weft.cuda import (
    Event,
    device_count,
    empty_cache,
    get_rng_state,
    is_available,
    manual_seed,
    set_rng_state,
    synchronize,
)

__all__ = [
    "Event", "current_allocated_memory", "device_count", "driver_allocated_memory", "empty_cache", "get_rng_state",
    "is_available", "manual_seed", "recommended_max_memory", "seed", "set_per_process_memory_fraction",
    "set_rng_state", "synchronize",
]  # fmt: skip


def current_allocated_memory() -> int:
    """The bytes that tensors have there: none."""
    return 0


driver_allocated_memory = recommended_max_memory = current_allocated_memory


def seed() -> None:
    """Nothing: there is no device generator to seed."""


def set_per_process_memory_fraction(fraction: float) -> None:
    """Nothing: there is no device memory."""
