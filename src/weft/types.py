"""Names for annotations, as PyTorch has them in `torch.types`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from weft.graph.dtype import DType
from weft.graph.tensor import Tensor
from weft.tensor.device import device
from weft.tensor.size import Size

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
FloatLikeType: TypeAlias = float | int
TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_device, _dtype, _size = device, DType, Size | list[int] | tuple[int, ...]

__all__ = ["DType", "Device", "FloatLikeType", "Number", "Size", "TensorOrTensors"]
