"""Names for annotations, as PyTorch has them in `torch.types`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.tensor.device import device
from weft.tensor.size import Size
from weft.tensor.storage import UntypedStorage
from weft.tensor.typed_storage import TypedStorage

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
FloatLikeType: TypeAlias = float | int
TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrTensors: TypeAlias = TensorOrTensors
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
Storage: TypeAlias = UntypedStorage | TypedStorage
_device, _dtype, _size = device, DType, Size | list[int] | tuple[int, ...]

__all__ = [
    "DType",
    "Device",
    "FileLike",
    "FloatLikeType",
    "Number",
    "Size",
    "Storage",
    "TensorOrTensors",
]
