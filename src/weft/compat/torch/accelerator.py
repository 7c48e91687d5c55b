"""`weft.accelerator`: questions about devices of any kind; there is none but the CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NoReturn

from weft._build.lazy import join as _join
from weft.cuda import current_device as current_device_index
from weft.cuda import current_stream, device_count, empty_cache, is_available, synchronize
from weft.cuda import set_device as set_device_index
from weft.errors import DeviceError

_MEMORY = {  # what each would tell or do
    "empty_host_cache": "Give back memory of the CPU that transfers to the device use",
    "get_memory_info": "The free memory and all memory of the device, in bytes",
    "max_memory_allocated": "The most bytes that tensors ever had on the device",
    "max_memory_reserved": "The most bytes of the device that were ever set aside for tensors",
    "memory_allocated": "The bytes that tensors have on the device",
    "memory_reserved": "The bytes of the device that are set aside for tensors",
    "memory_stats": "The statistics of the device's memory, by name",
    "reset_accumulated_memory_stats": "Count what is counted over all time anew",
    "reset_peak_memory_stats": "Count the most bytes ever in use anew",
}
__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "device_index", "empty_cache", "get_device_capability", "is_available", "set_device_idx", "set_device_index",
    "set_stream", "synchronize", *_MEMORY,
]  # fmt: skip


REFUSED = """{}: there is no device but the CPU, so every call raises.

Args:
    *arguments, **options: not looked at.

Raises:
    DeviceError, a RuntimeError, at every call.
"""


def _refused(name: str, words: str) -> Callable[..., NoReturn]:
    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise DeviceError(
            "Cannot access accelerator device when none is available.",
            expected="a question that the CPU can answer, the only device of this version",
            got=f"weft.accelerator.{name}",
            fix="ask only if weft.accelerator.is_available()",
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = REFUSED.format(words)
    return refuse


_memory: dict[str, Any] = {name: _refused(name, words) for name, words in _MEMORY.items()}
globals().update(_memory)
_join(sys.modules[__name__], {"memory": {**_memory, "empty_cache": empty_cache}})
get_device_capability = _refused("get_device_capability", "The generation of a device")
set_stream = _refused("set_stream", "Choose the stream to which the device is given work")
current_device_idx, set_device_idx = current_device_index, set_device_index


class device_index(AbstractContextManager[None]):  # noqa: N801 - PyTorch's name
    """A block on a device.

    Args:
        device: the number of the device; None: the block changes nothing.

    Raises:
        MissingDeviceError, a RuntimeError, for any number, when the block begins.
    """

    def __init__(self, device: int | None) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            set_device_index(self.idx)

    def __exit__(self, *exception: object) -> None:
        """Nothing to go back to."""


def current_accelerator(check_available: bool = False) -> Any:
    """The device other than the CPU: none, so None.

    Args:
        check_available: accepted, without effect: there is none either way.

    Example:
        >>> import weft
        >>> weft.accelerator.current_accelerator() or weft.device("cpu")
        device(type='cpu')
    """
    return
