"""DLPack under PyTorch's path."""

from __future__ import annotations

from typing import Any

from weft import Tensor, from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule that shares the tensor's memory."""
    return tensor.__dlpack__()
