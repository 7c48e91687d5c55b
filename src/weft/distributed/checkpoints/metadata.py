"""The metadata of checkpoints (what a folder holds) and the protocol of objects with a state, as PyTorch has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import weft
from weft.engine.ir.dtype import DType


@dataclass(frozen=True)
class ChunkStorageMetadata:
    """A part of a tensor that is on disk.

    Args:
        offsets: the first index in each dimension.
        sizes: how many there are.
    """

    offsets: weft.Size
    sizes: weft.Size


@dataclass(frozen=True)
class TensorProperties:
    """All of a tensor on disk but its shape.

    Args:
        dtype: the type of its elements.
    """

    dtype: DType


@dataclass(frozen=True)
class TensorStorageMetadata:
    """A tensor that is on disk.

    Args:
        properties: its type.
        size: its shape.
        chunks: the parts that it is in.
    """

    properties: TensorProperties
    size: weft.Size
    chunks: Sequence[ChunkStorageMetadata]


@dataclass(frozen=True)
class BytesStorageMetadata:
    """A value on disk that is no tensor."""


@dataclass(frozen=True)
class Metadata:
    """The content of a checkpoint.

    Args:
        state_dict_metadata: of each entry, by the keys that lead to it with dots between.
        planner_data: these keys.
    """

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: dict[str, tuple[str | int, ...]] = field(default_factory=dict)


@runtime_checkable
class Stateful(Protocol):
    """An object whose state a checkpoint saves, and gives back when it is loaded. Programs derive classes from it.

    Example:
        >>> import weft
        >>> from weft.distributed.checkpoint.stateful import Stateful
        >>> isinstance(weft.nn.Linear(2, 1), Stateful)
        True
    """

    def state_dict(self) -> dict[str, Any]:
        """The state, as a dictionary of tensors and plain values."""

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Take a state.

        Args:
            state_dict: what `state_dict` gave.
        """
