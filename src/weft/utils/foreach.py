"""Questions of packages about operations on lists of tensors."""

from __future__ import annotations

import weft
from weft._typing import DeviceLike
from weft.engine.frontend.tensor import Tensor
from weft.optim.helpers import (  # noqa: F401 - PyTorch's place for it
    _group_tensors_by_device_and_dtype,
)


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Devices on which optimizers update lists at once by themselves: none is asked to."""
    return []


_get_fused_kernels_supported_devices = _get_foreach_kernels_supported_devices


def _has_foreach_support(tensors: list[Tensor], device: DeviceLike | None) -> bool:
    """True if all are tensors on the CPU, which functions on lists take."""
    return all(isinstance(tensor, weft.Tensor) for tensor in tensors if tensor is not None)


_device_has_foreach_support = _has_foreach_support
