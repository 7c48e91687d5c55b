"""Names of checkpoints, as PyTorch has them: planners (how an entry that is not there is met), metadata (what a folder
holds), and the protocol of objects with a state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import weft
from weft.engine.ir.dtype import DType
from weft.errors import NotDefinedError


class DefaultSavePlanner:
    """The planner that `save` has anyhow.

    Args:
        flatten_state_dict: accepted: nested dictionaries are written by their paths. Default: True.
        flatten_sharded_tensors: accepted. Default: True.
        dedup_save_to_lowest_rank: accepted: what several ranks have is written once. Default: False.
        **options: accepted, without effect.

    Example:
        >>> from weft.distributed.checkpoint import DefaultSavePlanner
        >>> DefaultSavePlanner(dedup_save_to_lowest_rank=True).flatten_state_dict
        True
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_save_to_lowest_rank: bool = False,
        **options: object,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict


class DefaultLoadPlanner:
    """The planner that `load` has, which may leave entries alone that the checkpoint lacks.

    Args:
        flatten_state_dict: accepted: nested dictionaries are written by their paths. Default: True.
        flatten_sharded_tensors: accepted. Default: True.
        allow_partial_load: True: what the checkpoint lacks stays as it is; False: that is an error.

    Example:
        >>> import tempfile
        >>> import weft
        >>> import weft.distributed.checkpoint as dcp
        >>> state = {"step": weft.tensor(0), "new": weft.tensor(3)}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = dcp.save({"step": weft.tensor(7)}, checkpoint_id=folder)
        ...     dcp.load(state, checkpoint_id=folder, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
        >>> state
        {'step': tensor(7), 'new': tensor(3)}
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.flatten_state_dict, self.allow_partial_load = flatten_state_dict, allow_partial_load


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """The planner with which an empty state gets what the checkpoint has.

    Args:
        keys: names of entries, or of what they are in; None: all.
    """

    def __init__(self, keys: set[str] | None = None, **options: bool) -> None:
        super().__init__(**options)
        self.keys = keys


_OWN_PLANNERS = (DefaultSavePlanner, DefaultLoadPlanner, _EmptyStateDictLoadPlanner)


def need_default(planner: object) -> None:
    """Errors: NotImplementedError for a planner of the program's own, which would have no effect."""
    if planner is None or type(planner) in _OWN_PLANNERS:
        return
    raise NotDefinedError(
        "checkpoint: a planner of one's own has no effect here",
        expected="None, DefaultSavePlanner or DefaultLoadPlanner",
        got=type(planner).__name__,
        fix="change the state before save, or after load",
    )


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
