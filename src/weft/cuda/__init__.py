"""CUDA as programs ask about it: there is no device, and what only waits for one does nothing.

In come the questions that PyTorch programs ask at start-up; out goes "no device". What needs a device raises.
"""

from __future__ import annotations

from typing import Any

from weft.cuda import amp
from weft.errors import DeviceError

__all__ = [
    "amp", "current_device", "device_count", "empty_cache", "get_device_name", "get_device_properties",
    "is_available", "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "memory_allocated", "set_device", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether there is a CUDA device: no."""
    return False


def device_count() -> int:
    """The number of CUDA devices: none."""
    return 0


def is_initialized() -> bool:
    """Whether CUDA is in use: no."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether a CUDA device computes in bfloat16: there is none."""
    return False


def manual_seed(seed: int) -> None:
    """Nothing: there is no device generator to seed."""


def manual_seed_all(seed: int) -> None:
    """Nothing: there is no device generator to seed."""


def empty_cache() -> None:
    """Nothing: there is no device memory."""


def synchronize(device: Any = None) -> None:
    """Nothing: there is no device to wait for."""


def _missing(name: str) -> DeviceError:
    return DeviceError(
        f"weft.cuda.{name}: no CUDA device",
        expected="the CPU, the only device of this version",
        got="a question about a CUDA device",
        fix="ask only if weft.cuda.is_available()",
    )


def current_device() -> int:
    """Errors: RuntimeError, there is no device."""
    raise _missing("current_device")


def set_device(device: Any) -> None:
    """Errors: RuntimeError, there is no device."""
    raise _missing("set_device")


def get_device_name(device: Any = None) -> str:
    """Errors: RuntimeError, there is no device."""
    raise _missing("get_device_name")


def get_device_properties(device: Any = None) -> Any:
    """Errors: RuntimeError, there is no device."""
    raise _missing("get_device_properties")


def memory_allocated(device: Any = None) -> int:
    """Bytes in use on a device: none."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes ever in use on a device: none."""
    return 0


class _TensorType:
    """An old constructor such as `cuda.FloatTensor`: nothing is an instance of it, and it makes nothing."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __instancecheck__(self, value: Any) -> bool:
        return False

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise _missing(self.__name__)

    def __repr__(self) -> str:
        return f"weft.cuda.{self.__name__}"


for _kind in (
    "Float",
    "Double",
    "Half",
    "BFloat16",
    "Long",
    "Int",
    "Short",
    "Char",
    "Byte",
    "Bool",
):
    globals()[f"{_kind}Tensor"] = _TensorType(f"{_kind}Tensor")
