"""`weft.cpu`: the processor under the interface of a device: it is there, and there is nothing to wait for."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

from weft._build.lazy import gather as _gather
from weft._typing import DeviceLike
from weft.engine.devices.cpu.llvm.target import AVX2, AVX512, host

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count", "get_capabilities",
    "is_available", "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip


class Stream:
    """The only one: work is recorded in one order.

    Args:
        priority: accepted, without effect.
    """

    def __init__(self, priority: int = -1) -> None:
        """Nothing to make."""

    def wait_stream(self, stream: object) -> None:
        """Nothing: it is itself.

        Args:
            stream: accepted, without effect.
        """


class Event:
    """A point in the order of work, which has been reached when it is asked for."""

    def query(self) -> bool:
        """True if the event has been reached: always."""
        return True

    def record(self, stream: object = None) -> None:
        """Nothing to note, and nothing to wait for.

        Args:
            stream: accepted, without effect; None: the same.
        """

    def synchronize(self) -> None:
        """Nothing to wait for."""

    wait = record


_STREAM = Stream()


def is_available() -> bool:
    """True if there is a processor: yes."""
    return True


is_initialized = is_available


def device_count() -> int:
    """The number of processors as devices: one."""
    return 1


def current_device() -> str:
    """The device of tensors."""
    return "cpu"


def set_device(device: DeviceLike | None) -> None:
    """Nothing to choose.

    Args:
        device: accepted, without effect.
    """


def synchronize(device: DeviceLike | None = None) -> None:
    """Nothing to wait for: who reads a value waits for it.

    Args:
        device: accepted, without effect; None: the same.
    """


def current_stream(device: DeviceLike | None = None) -> Stream:
    """The only one.

    Args:
        device: accepted, without effect; None: the same.
    """
    return _STREAM


def stream(stream: object) -> nullcontext[None]:
    """A context that changes nothing.

    Args:
        stream: accepted, without effect.
    """
    return nullcontext()


StreamContext = nullcontext


def get_capabilities() -> dict[str, Any]:
    """The instruction set that kernels are made for."""
    return {"architecture": host().name}


def _is_avx2_supported() -> bool:
    """True if the processor has vectors of 256 bits."""
    return host() in (AVX2, AVX512)


def _is_avx512_supported() -> bool:
    """True if the processor has vectors of 512 bits."""
    return host() is AVX512


def _is_amx_fp16_supported() -> bool:
    """True if kernels multiply tiles of float16: no."""
    return False


_gather(
    sys.modules[__name__],
    {
        "amp": {"amp": "GradScaler=CPUGradScaler autocast=CPUAutocast"},
        "amp.autocast_mode": {"amp": "autocast=CPUAutocast"},
        "amp.grad_scaler": {"amp": "GradScaler=CPUGradScaler"},
    },
)
