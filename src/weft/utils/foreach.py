"""Questions of packages about operations on lists of tensors."""

from __future__ import annotations

from typing import Any

import weft
from weft._typing import DeviceLike
from weft.engine.frontend.tensor import Tensor


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Devices on which optimizers update lists at once by themselves: none is asked to."""
    return []


_get_fused_kernels_supported_devices = _get_foreach_kernels_supported_devices


def _has_foreach_support(tensors: list[Tensor], device: DeviceLike | None) -> bool:
    """True if all are tensors on the CPU, which functions on lists take."""
    return all(isinstance(tensor, weft.Tensor) for tensor in tensors if tensor is not None)


_device_has_foreach_support = _has_foreach_support


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Any]], with_indices: bool = False
) -> dict[Any, Any]:
    """(device, type) -> the same lists with the tensors of which the first list's is of that type, and where they
    stood."""
    groups: dict[Any, tuple[list[list[Any]], list[int]]] = {}
    for index, first in enumerate(tensorlistlist[0]):
        key = (first.device, first.dtype)
        lists, indices = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        indices.append(index)
        for column, tensors in zip(lists, tensorlistlist, strict=True):
            if tensors:
                column.append(tensors[index])
    return {
        key: (lists, indices if with_indices else []) for key, (lists, indices) in groups.items()
    }
