"""The interface of CUDA: there is no device. Functions that only wait for one do nothing; functions that need one
raise.

PyTorch programs ask these questions at start-up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator, nullcontext
from typing import Any, NoReturn

from weft._build.lazy import gather as _gather
from weft._build.lazy import join as _join
from weft._typing import DeviceLike
from weft.cuda import amp
from weft.engine.frontend.tensor import Tensor
from weft.errors import MissingDeviceError, NotDefinedError, OutOfMemoryError

__all__ = [
    "amp", "CUDAGraph", "current_device", "current_stream", "default_stream", "device_count", "empty_cache", "Event",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all",
    "is_available", "is_bf16_supported", "is_current_stream_capturing", "is_initialized", "manual_seed",
    "manual_seed_all", "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated",
    "memory_reserved", "memory_stats", "OutOfMemoryError", "reset_peak_memory_stats", "seed_all", "set_device",
    "set_per_process_memory_fraction", "set_rng_state", "set_rng_state_all", "stream", "Stream", "StreamContext",
    "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """True if there is a CUDA device: no."""
    return False


def amp_definitely_not_available() -> bool:
    """True if mixed precision is off: yes, there is no device."""
    return True


def device_count() -> int:
    """The number of CUDA devices: none."""
    return 0


def is_initialized() -> bool:
    """True if CUDA is in use: no."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True if a CUDA device computes in bfloat16: there is none."""
    return False


def manual_seed(seed: int) -> None:
    """Nothing: there is no device generator to seed."""


def manual_seed_all(seed: int) -> None:
    """Nothing: there is no device generator to seed."""


def empty_cache() -> None:
    """Nothing: there is no device memory."""


def synchronize(device: DeviceLike | None = None) -> None:
    """Nothing: there is no device to wait for.

    Args:
        device: accepted, without effect; None: the same.
    """


def _missing(name: str) -> MissingDeviceError:
    return MissingDeviceError(
        "Weft not compiled with CUDA enabled",
        expected="the CPU, the only device of this version",
        got="a question about a CUDA device",
        fix="ask only if weft.cuda.is_available()",
        operation=f"cuda.{name}",
    )


REFUSING = """Refuse: there is no device.

Args:
    *arguments, **options: not looked at.

Errors: RuntimeError.
"""


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise _missing(name)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = REFUSING
    return refuse


current_device, set_device, get_device_name, get_device_properties, get_device_capability = map(
    _refused,
    (
        "current_device",
        "set_device",
        "get_device_name",
        "get_device_properties",
        "get_device_capability",
    ),
)
current_stream, default_stream, get_rng_state, set_rng_state, mem_get_info = map(
    _refused, ("current_stream", "default_stream", "get_rng_state", "set_rng_state", "mem_get_info")
)


class Stream:
    """No object is one: there is no device.

    Args:
        *arguments: not looked at.
        **options: not looked at.

    Errors: RuntimeError when one is made.
    """

    def __init__(self, *arguments: object, **options: object) -> None:
        raise _missing(type(self).__name__)


class Event(Stream):
    """No object is one.

    Args:
        *arguments: not looked at.
        **options: not looked at.
    """


class CUDAGraph(Stream):
    """No object is one."""


class StreamContext(Stream):
    """No object is one."""


class graph(Stream):  # noqa: N801 - PyTorch's name
    """No object is one."""


def stream(stream: None) -> nullcontext[None]:
    """A context that changes nothing: the only stream is None."""
    return nullcontext()


class device(Stream):  # noqa: N801 - PyTorch's name
    """A block on a device; None, and -1, change nothing. Errors: RuntimeError for any other."""

    def __init__(self, device: object) -> None:
        if device not in (None, -1):
            super().__init__()

    def __enter__(self) -> None:
        """Nothing to change to."""

    def __exit__(self, *exception: object) -> None:
        """Nothing to go back to."""


def get_arch_list() -> list[str]:
    """The devices that kernels are there for: none."""
    return []


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The memory in use on a device, as text: none."""
    return "there is no CUDA device"


def list_gpu_processes(device: Any = None) -> str:
    """The processes that use a device, as text: none."""
    return memory_summary()


def ipc_collect() -> None:
    """Nothing: there is no device memory."""


reset_max_memory_allocated = reset_max_memory_cached = ipc_collect


def _is_in_bad_fork() -> bool:
    return False


def _lazy_call(callable: Callable[[], object], **options: object) -> None:  # noqa: A002 - PyTorch's name
    """Nothing: it would be called when a device is first used."""


def is_current_stream_capturing() -> bool:
    """True if a graph is being captured: never."""
    return False


def seed_all() -> None:
    """Nothing: there is no device to seed."""


def get_rng_state_all() -> list[Any]:
    """The states of all devices: none."""
    return []


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Nothing: there is no device."""


def memory_stats(device: DeviceLike | None = None) -> dict[str, int]:
    """The statistics of a device: none."""
    return {}


def reset_peak_memory_stats(device: DeviceLike | None = None) -> None:
    """Nothing: nothing is counted."""


def set_per_process_memory_fraction(fraction: float, device: DeviceLike | None = None) -> None:
    """Nothing: there is no device memory to share out."""


def memory_allocated(device: DeviceLike | None = None) -> int:
    """Bytes in use on a device: none."""
    return 0


def max_memory_allocated(device: DeviceLike | None = None) -> int:
    """The most bytes ever in use on a device: none."""
    return 0


memory_reserved, max_memory_reserved = memory_allocated, max_memory_allocated


class _TensorType:
    """An old constructor such as `cuda.FloatTensor`: nothing is an instance of it, and it makes nothing."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __reduce__(self) -> str:
        return self.__name__

    def __instancecheck__(self, value: object) -> bool:
        return False

    def __call__(self, *arguments: object, **keywords: object) -> Any:
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
_ABOUT_SEEDS = (
    "get_rng_state", "get_rng_state_all", "manual_seed", "manual_seed_all", "seed_all", "set_rng_state",
    "set_rng_state_all",
)  # fmt: skip
_initialized = False
default_generators: tuple[Any, ...] = ()  # one for each device
_gather(
    sys.modules[__name__],
    {
        "streams": {"cuda": "Event Stream"},
        "graphs": {"cuda": "CUDAGraph graph"},
        "memory": {
            "cuda": "empty_cache max_memory_allocated max_memory_reserved mem_get_info memory_allocated "
            "memory_reserved memory_stats reset_peak_memory_stats set_per_process_memory_fraction"
        },
    },
)
_join(sys.modules[__name__], {"random": {name: globals()[name] for name in _ABOUT_SEEDS}})


def _unmarked(*arguments: object, **options: object) -> int:
    """Nothing: no profiler of a device looks for marks."""
    return 0


class _UnmarkedRange(ContextDecorator):
    """Nothing around a block, or a function."""

    def __init__(self, message: str, *arguments: object, **options: object) -> None:
        """The message is nobody's."""

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, *raised: object) -> None:
        """Nothing."""


def _no_kernel(code_string: str, *outputs: int, **defaults: object) -> Callable[..., NoReturn]:
    """A function that raises NotImplementedError: kernels written in C++ are for a GPU."""

    def kernel(*inputs: object, **options: object) -> NoReturn:
        raise NotDefinedError(
            "torch.cuda.jiterator: there is no GPU",
            expected="a function of tensors, which is compiled as it runs",
            got="a kernel in C++",
            fix="write it with weft's functions",
        )

    return kernel


_MARKS = ("mark", "range_end", "range_pop", "range_push", "range_start")
_join(
    sys.modules[__name__],
    {
        "jiterator": {"_create_jit_fn": _no_kernel, "_create_multi_output_jit_fn": _no_kernel},
        "nvtx": {**dict.fromkeys(_MARKS, _unmarked), "range": _UnmarkedRange},
    },
)
