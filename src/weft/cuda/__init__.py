"""`weft.cuda`: the questions that PyTorch programs ask about NVIDIA's graphics processors, so that they run here
unchanged. This version computes on the CPU: there is no such device. What only counts or waits says so or does nothing;
what needs a device raises `weft.errors.MissingDeviceError`.
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
from weft.engine.api.deprecation import deprecated
from weft.engine.frontend.tensor import Tensor
from weft.errors import MissingDeviceError, NotDefinedError, OutOfMemoryError

__all__ = [
    "amp", "CUDAGraph", "current_device", "current_stream", "default_stream", "device", "device_count", "empty_cache",
    "Event", "get_arch_list", "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state",
    "get_rng_state_all", "graph", "ipc_collect", "is_available", "is_bf16_supported", "is_current_stream_capturing",
    "is_initialized", "is_tf32_supported", "list_gpu_processes", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved",
    "memory_stats", "memory_summary",
    "OutOfMemoryError", "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats", "seed_all",
    "set_device", "set_per_process_memory_fraction", "set_rng_state", "set_rng_state_all", "stream", "Stream",
    "StreamContext", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """True if there is such a device: no. A program that asks this first runs here as it stands.

    Example:
        >>> import weft
        >>> "cuda" if weft.cuda.is_available() else "cpu"
        'cpu'
    """
    return False


def amp_definitely_not_available() -> bool:
    """True if there is no mixed precision on such a device: yes, there is no device. `weft.amp` has that of the CPU."""
    return True


def device_count() -> int:
    """The number of such devices: none.

    Example:
        >>> import weft
        >>> [f"cuda:{index}" for index in range(weft.cuda.device_count())]
        []
    """
    return 0


def is_initialized() -> bool:
    """True if such a device is in use: no."""
    return False


def is_tf32_supported() -> bool:
    """True if such a device computes in TF32: there is none."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True if such a device computes in bfloat16: there is none. The CPU does (`weft.bfloat16`).

    Args:
        including_emulation: accepted, without effect. Default: True.
    """
    return False


def manual_seed(seed: int) -> None:
    """Seed the generator of a device: there is none, so nothing happens. `weft.manual_seed` seeds that of the CPU.

    Args:
        seed: accepted, without effect.
    """


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices: there are none, so nothing happens. `weft.manual_seed` seeds that of the CPU.

    Args:
        seed: accepted, without effect.
    """


def empty_cache() -> None:
    """Give memory of a device back: there is none, so nothing happens."""


def synchronize(device: DeviceLike | None = None) -> None:
    """Wait for a device: there is none, so nothing happens. `weft.realize` waits for what has been recorded.

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


def current_device() -> NoReturn:
    """The index of the device in use: there is none.

    Raises:
        MissingDeviceError, a RuntimeError, at every call.

    Example:
        >>> import weft
        >>> try:
        ...     weft.cuda.current_device()
        ... except RuntimeError:
        ...     print("no GPU")
        no GPU
    """
    raise _missing("current_device")


def set_device(device: DeviceLike) -> NoReturn:
    """Choose the device of new tensors: there is none to choose. `weft.set_default_device` takes "cpu" and "meta".

    Args:
        device: the device, which is not there.

    Raises:
        MissingDeviceError, a RuntimeError, at every call.
    """
    raise _missing("set_device")


def get_device_name(device: DeviceLike | None = None) -> NoReturn:
    """The name of a device: there is none. `weft.doctor` names the processor.

    Args:
        device: the device, which is not there; None: that in use, which is not there either.

    Raises:
        MissingDeviceError, a RuntimeError, at every call.
    """
    raise _missing("get_device_name")


def get_device_properties(device: DeviceLike | None = None) -> NoReturn:
    """The properties of a device: there is none. `weft.doctor` describes the processor.

    Args:
        device: the device, which is not there; None: that in use, which is not there either.

    Raises:
        MissingDeviceError, a RuntimeError, at every call.
    """
    raise _missing("get_device_properties")


def get_device_capability(device: DeviceLike | None = None) -> NoReturn:
    """The generation of a device: there is none. `weft.backends.cpu` names the CPU's vector instructions.

    Args:
        device: the device, which is not there; None: that in use, which is not there either.

    Raises:
        MissingDeviceError, a RuntimeError, at every call.
    """
    raise _missing("get_device_capability")


def current_stream(device: DeviceLike | None = None) -> NoReturn:
    """The stream to which a device is given work: there is none.

    Args:
        device: the device, which is not there; None: that in use, which is not there either.

    Raises:
        MissingDeviceError, a RuntimeError, at every call.
    """
    raise _missing("current_stream")


def default_stream(device: DeviceLike | None = None) -> NoReturn:
    """The stream that a device begins with: there is none.

    Args:
        device: the device, which is not there; None: that in use, which is not there either.

    Raises:
        MissingDeviceError, a RuntimeError, at every call.
    """
    raise _missing("default_stream")


def get_rng_state(device: DeviceLike = "cuda") -> NoReturn:
    """The state of a device's generator: there is none. `weft.get_rng_state` has that of the CPU.

    Args:
        device: the device, which is not there. Default: 'cuda'.

    Raises:
        MissingDeviceError, a RuntimeError, at every call.
    """
    raise _missing("get_rng_state")


def set_rng_state(new_state: Tensor, device: DeviceLike = "cuda") -> NoReturn:
    """Give a device's generator a state: there is none. `weft.set_rng_state` does so for the CPU.

    Args:
        new_state: what `get_rng_state` returned where there was a device.
        device: the device, which is not there. Default: 'cuda'.

    Raises:
        MissingDeviceError, a RuntimeError, at every call.
    """
    raise _missing("set_rng_state")


def mem_get_info(device: DeviceLike | None = None) -> NoReturn:
    """The free memory and all memory of a device, in bytes: there is none. `weft.memory_report` tells of the CPU's.

    Args:
        device: the device, which is not there; None: that in use, which is not there either.

    Raises:
        MissingDeviceError, a RuntimeError, at every call.
    """
    raise _missing("mem_get_info")


class Stream:
    """A queue of work for a device. There is no device, so none can be made.

    Args:
        *arguments: not looked at.
        **options: not looked at.

    Raises:
        MissingDeviceError, a RuntimeError, when one is made.
    """

    def __init__(self, *arguments: object, **options: object) -> None:
        raise _missing(type(self).__name__)


class Event(Stream):
    """A point in a device's work that a program waits for or measures. There is no device, so none can be made.

    `time.perf_counter` around a step that ends with `weft.realize()` measures it here.

    Args:
        *arguments: not looked at.
        **options: not looked at.

    Raises:
        MissingDeviceError, a RuntimeError, when one is made.
    """


class CUDAGraph(Stream):
    """Work of a device that is recorded once and repeated. There is no device, so none can be made.

    On the CPU a step that comes again is repeated without being asked for.

    Args:
        *arguments: not looked at.
        **options: not looked at.

    Raises:
        MissingDeviceError, a RuntimeError, when one is made.
    """


class StreamContext(Stream):
    """A block whose work goes to one stream. There is no stream, so none can be made; `stream(None)` is one.

    Args:
        *arguments: not looked at.
        **options: not looked at.

    Raises:
        MissingDeviceError, a RuntimeError, when one is made.
    """


class graph(Stream):  # noqa: N801 - PyTorch's name
    """A block whose work a `CUDAGraph` records. There is no device, so none can be made.

    Args:
        *arguments: not looked at.
        **options: not looked at.

    Raises:
        MissingDeviceError, a RuntimeError, when one is made.
    """


def stream(stream: None) -> nullcontext[None]:
    """A block whose work goes to a stream: the only one is None, and the block changes nothing.

    Args:
        stream: None.

    Example:
        >>> import weft
        >>> with weft.cuda.stream(None):
        ...     weft.ones(2) + 1
        tensor([2., 2.])
    """
    return nullcontext()


class device(Stream):  # noqa: N801 - PyTorch's name
    """A block whose new tensors lie on a device. There is none: only blocks that choose none can be made.

    Args:
        device: None or -1, which change nothing.

    Raises:
        MissingDeviceError, a RuntimeError, for any other device.

    Example:
        >>> import weft
        >>> with weft.cuda.device(None):
        ...     weft.ones(2).device
        device(type='cpu')
    """

    def __init__(self, device: object) -> None:
        if device not in (None, -1):
            super().__init__()

    def __enter__(self) -> None:
        """Nothing to change to."""

    def __exit__(self, *exception: object) -> None:
        """Nothing to go back to."""


def get_arch_list() -> list[str]:
    """The kinds of devices that there are kernels for: none."""
    return []


def memory_summary(device: DeviceLike | None = None, abbreviated: bool = False) -> str:
    """The memory in use on a device, as text: there is no device. `weft.memory_report` tells of the CPU's.

    Args:
        device: accepted, without effect; None: the same.
        abbreviated: accepted, without effect. Default: False.

    Example:
        >>> import weft
        >>> weft.cuda.memory_summary()
        'there is no CUDA device'
    """
    return "there is no CUDA device"


def list_gpu_processes(device: DeviceLike | None = None) -> str:
    """The processes that use a device, as text: there is no device.

    Args:
        device: accepted, without effect; None: the same.
    """
    return memory_summary()


def ipc_collect() -> None:
    """Give back what other processes have let go: there is no device memory, so nothing happens."""


def reset_max_memory_allocated(device: DeviceLike | None = None) -> None:
    """Count the most bytes ever in use anew: nothing is counted, so nothing happens.

    Args:
        device: accepted, without effect; None: the same.
    """


def reset_max_memory_cached(device: DeviceLike | None = None) -> None:
    """Count the most bytes ever set aside anew: nothing is counted, so nothing happens.

    Args:
        device: accepted, without effect; None: the same.
    """


def _is_in_bad_fork() -> bool:
    return False


def _lazy_call(callable: Callable[[], object], **options: object) -> None:  # noqa: A002 - PyTorch's name
    """Nothing: it would be called when a device is first used."""


def is_current_stream_capturing() -> bool:
    """True if a `CUDAGraph` is being recorded: never."""
    return False


def seed_all() -> None:
    """Seed the generators of all devices by chance: there are none, so nothing happens."""


def get_rng_state_all() -> list[Tensor]:
    """The states of all devices' generators: an empty list."""
    return []


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Give all devices' generators their states: there are none, so nothing happens.

    Args:
        new_states: accepted, without effect: what `get_rng_state_all` returned.
    """


def memory_stats(device: DeviceLike | None = None) -> dict[str, int]:
    """The statistics of a device's memory, by name: an empty dict. `weft.memory_report` tells of the CPU's.

    Args:
        device: accepted, without effect; None: the same.
    """
    return {}


def reset_peak_memory_stats(device: DeviceLike | None = None) -> None:
    """Count the most bytes ever in use anew: nothing is counted, so nothing happens.

    Args:
        device: accepted, without effect; None: the same.
    """


def set_per_process_memory_fraction(fraction: float, device: DeviceLike | None = None) -> None:
    """Limit this process to a share of a device's memory: there is none. `weft.set_memory_budget` limits the CPU's.

    Args:
        fraction: accepted, without effect.
        device: accepted, without effect; None: the same.
    """


def memory_allocated(device: DeviceLike | None = None) -> int:
    """The bytes that tensors have on a device: 0. `weft.memory_report` tells of the CPU's.

    Args:
        device: accepted, without effect; None: the same.

    Example:
        >>> import weft
        >>> weft.cuda.memory_allocated()
        0
    """
    return 0


def max_memory_allocated(device: DeviceLike | None = None) -> int:
    """The most bytes that tensors ever had on a device: 0. `weft.memory_report` tells of the CPU's.

    Args:
        device: accepted, without effect; None: the same.
    """
    return 0


def memory_reserved(device: DeviceLike | None = None) -> int:
    """The bytes of a device that are set aside for tensors: 0.

    Args:
        device: accepted, without effect; None: the same.
    """
    return 0


def max_memory_reserved(device: DeviceLike | None = None) -> int:
    """The most bytes of a device that were ever set aside for tensors: 0.

    Args:
        device: accepted, without effect; None: the same.
    """
    return 0


memory_cached, max_memory_cached = (
    deprecated(f"`torch.cuda.{older}` has been renamed to `torch.cuda.{today.__name__}`")(today)
    for older, today in (
        ("memory_cached", memory_reserved),
        ("max_memory_cached", max_memory_reserved),
    )
)


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
            "memory_cached max_memory_cached memory_reserved memory_stats reset_peak_memory_stats "
            "set_per_process_memory_fraction"
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
