"""`weft.xpu`: the questions that PyTorch programs ask about Intel's graphics processors. There is none: they are the
questions of `weft.cuda`, and are answered alike.
"""

from __future__ import annotations

import sys

from weft._build.lazy import gather as _gather
from weft.cuda import (
    Event,
    Stream,
    current_device,
    current_stream,
    device_count,
    empty_cache,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_rng_state,
    get_rng_state_all,
    is_available,
    is_bf16_supported,
    is_current_stream_capturing,
    is_initialized,
    manual_seed,
    manual_seed_all,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_peak_memory_stats,
    set_device,
    set_rng_state,
    set_rng_state_all,
    stream,
    synchronize,
)
from weft.cuda import device as device

__all__ = [
    "Event", "Stream", "current_device", "current_stream", "device", "device_count", "empty_cache",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all",
    "is_available",
    "is_bf16_supported", "is_current_stream_capturing", "is_initialized", "manual_seed", "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_peak_memory_stats", "set_device", "set_rng_state", "set_rng_state_all", "stream", "synchronize",
]  # fmt: skip
_gather(
    sys.modules[__name__],
    {"memory": {"cuda": "empty_cache memory_allocated memory_reserved max_memory_allocated"}},
)
