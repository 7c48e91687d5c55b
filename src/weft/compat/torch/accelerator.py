"""`weft.accelerator`: questions about devices of any kind; there is none but the CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NoReturn

from weft._build.lazy import join as _join
from weft.cuda import REFUSING, current_stream, device_count, empty_cache, is_available, synchronize
from weft.cuda import current_device as current_device_index
from weft.cuda import set_device as set_device_index
from weft.errors import DeviceError

_MEMORY = (
    "empty_host_cache", "get_memory_info", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
    "memory_reserved", "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats",
)  # fmt: skip
__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "device_index", "empty_cache", "get_device_capability", "is_available", "set_device_idx", "set_device_index",
    "set_stream", "synchronize", *_MEMORY,
]  # fmt: skip


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise DeviceError(
            "Cannot access accelerator device when none is available.",
            expected="a question that the CPU can answer, the only device of this version",
            got=f"weft.accelerator.{name}",
            fix="ask only if weft.accelerator.is_available()",
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = REFUSING
    return refuse


_memory: dict[str, Any] = {name: _refused(name) for name in _MEMORY}
globals().update(_memory)
_join(sys.modules[__name__], {"memory": {**_memory, "empty_cache": empty_cache}})
get_device_capability, set_stream = _refused("get_device_capability"), _refused("set_stream")
current_device_idx, set_device_idx = current_device_index, set_device_index


class device_index(AbstractContextManager[None]):  # noqa: N801 - PyTorch's name
    """A block on a device.

    Args:
        device: the number of the device; None: the block changes nothing.

    Errors: RuntimeError for any number, when the block begins.
    """

    def __init__(self, device: int | None) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            set_device_index(self.idx)

    def __exit__(self, *exception: object) -> None:
        """Nothing to go back to."""


def current_accelerator(check_available: bool = False) -> Any:
    """The device other than the CPU: none.

    Args:
        check_available: accepted, without effect: there is none either way.
    """
    return
