"""What parameters take, under one name each: the unions that many signatures share.

To be named in annotations only, which are strings: nothing is imported here that is not there anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from weft.engine.frontend.tensor import Tensor
    from weft.tensor.device import device

Shape: TypeAlias = tuple[int, ...]
Dims: TypeAlias = int | Sequence[int] | None  # a dimension, several, or all of them
Scalar: TypeAlias = int | float | complex
TensorLike: TypeAlias = "Tensor | Scalar"
DeviceLike: TypeAlias = "device | str | int"
# What optimizers are given: parameters, with names or without, or groups of them with options.
Parameters: TypeAlias = "Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]"
