"""CUDA as programs ask about it: there is no device, and what only waits for one does nothing.

In come the questions that PyTorch programs ask at start-up; out goes "no device". What needs a device raises.
"""

from __future__ import annotations

from typing import Any

from weft.errors import DeviceError


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


class amp:  # noqa: N801 - PyTorch's name
    """`weft.cuda.amp`: autocast and GradScaler for a device that is not there; both are off."""

    @staticmethod
    def autocast(enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> Any:
        """A context that does nothing."""
        from weft.amp import autocast

        return autocast("cuda", enabled=False)

    @staticmethod
    def GradScaler(*args: Any, **options: Any) -> Any:  # noqa: N802 - PyTorch's name
        """A scaler that does nothing."""
        from weft.amp import GradScaler

        return GradScaler("cuda", *args, **{**options, "enabled": False})
