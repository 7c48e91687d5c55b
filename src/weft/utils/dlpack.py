"""DLPack under PyTorch's path."""

from __future__ import annotations

import enum
from typing import Any

from weft import Tensor, from_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """Devices by the numbers that DLPack's header gives them."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule that shares the tensor's memory.

    Args:
        tensor: the tensor whose memory is shared.
    """
    return tensor.__dlpack__()
