"""What programs ask about the framework, and about numbers that tracing makes symbols of; here they are numbers.

Also PyTorch's older setters of mixed precision, and the exception of devices.
"""

from __future__ import annotations

import math
from typing import Any

import weft
from weft import amp
from weft.errors import DeviceError
from weft.nn.refusals import typename as _typename

AcceleratorError = DeviceError
TensorType = weft.Tensor  # in annotations
_always: list[bool] = []


def typename(obj: Any, /) -> str:
    """The name of an object's type, with its module unless it is built in; of a tensor the type's old name."""
    return str(obj.type()) if isinstance(obj, weft.Tensor) else _typename(obj)


def set_warn_always(b: bool, /) -> None:
    """Whether warnings that are given once are to be given each time; Python's filters decide that here."""
    _always[:] = [True] if b else []


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was told."""
    return bool(_always)


def get_device_module(device: Any = None) -> Any:
    """The module that answers for a device: `weft.cpu`, or the one of a device that is not there."""
    kind = "cpu" if device is None else str(device).partition(":")[0]
    return getattr(weft, kind)


def sym_int(a: Any) -> int:
    """The integer towards zero."""
    return math.trunc(a)


def sym_float(a: Any) -> float:
    """The number as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """Not."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger of two numbers, a float where one of them is."""
    return float(max(a, b)) if isinstance(a, float) or isinstance(b, float) else max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers, a float where one of them is."""
    return float(min(a, b)) if isinstance(a, float) or isinstance(b, float) else min(a, b)


def sym_sum(args: Any) -> Any:
    """The sum of numbers."""
    return sum(args)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t` where `b` is true, else `f`."""
    return t if b else f


def sym_sqrt(a: Any) -> float:
    """The root."""
    return math.sqrt(a)


def _on() -> bool:
    return True


def _off() -> bool:
    return False


has_lapack, has_spectral, has_openmp, has_mkl = True, True, False, False
is_autocast_cache_enabled = _on
is_autocast_ipu_enabled = is_autocast_xla_enabled = is_vulkan_available = _off


def is_distributed(input: Any) -> bool:  # noqa: A002 - PyTorch's name
    """Whether a tensor lies in several processes: no."""
    return False


def get_autocast_gpu_dtype() -> Any:
    """The type that autocast casts to on a device that is not there."""
    return amp.get_autocast_dtype("cuda")


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """`autograd.set_detect_anomaly` without a block."""
    weft.autograd.set_detect_anomaly(enabled, check_nan)
