"""`weft.mps`: the questions that PyTorch programs ask about Apple's graphics processors. There is none: the memory in
use is 0, and what only waits or seeds does nothing.
"""

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
    """The bytes that tensors have on the device: 0. `weft.memory_report` tells of the CPU's.

    Example:
        >>> import weft
        >>> weft.mps.current_allocated_memory()
        0
    """
    return 0


def driver_allocated_memory() -> int:
    """The bytes that the device's driver has set aside: 0."""
    return 0


def recommended_max_memory() -> int:
    """The bytes that tensors had better not exceed on the device: 0, since there is none."""
    return 0


def seed() -> None:
    """Seed the device's generator by chance: there is none, so nothing happens. `weft.seed` does so for the CPU."""


def set_per_process_memory_fraction(fraction: float) -> None:
    """Limit this process to a share of the device's memory: there is none. `weft.set_memory_budget` limits the CPU's.

    Args:
        fraction: accepted, without effect.
    """
