"""Planners of checkpoints, as PyTorch has them: which state is written and read, and with which values.

A planner of the program's own may change these. Which rank writes what, and where, is not a planner's to say here:
one that defines a method for it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from weft.engine.frontend.tensor import Tensor
from weft.errors import NotDefinedError

State = dict[Any, Any]


class WriteItemType(Enum):
    """The kind of an entry that is written."""

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()  # no tensor


@dataclass(frozen=True)
class MetadataIndex:
    """The name of an entry.

    Args:
        fqn: its keys with dots between.
    """

    fqn: str


@dataclass(frozen=True)
class WriteItem:
    """An entry that is written.

    Args:
        index: its name.
        type: its kind.
    """

    index: MetadataIndex
    type: WriteItemType


class DefaultSavePlanner:
    """The planner that `save` has anyhow. Programs derive planners of their own, which write another state
    (`set_up_planner`) or other values (`lookup_object`, `transform_object`, `resolve_data`).

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
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.found: dict[str, object] = {}  # the values of the state, by their names

    def set_up_planner(
        self, state_dict: State, storage_meta: object = None, is_coordinator: bool = False
    ) -> None:
        """Take the state that is written; nested dictionaries stay as they are.

        Args:
            state_dict: the state.
            storage_meta: None.
            is_coordinator: True on the first rank.
        """
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The value of an entry.

        Args:
            index: the name of the entry, as `index.fqn`.
        """
        return self.found[index.fqn]

    def transform_object(self, write_item: WriteItem, object: object) -> Any:  # noqa: A002 - PyTorch's name
        """The value that is written in the place of another one: the same.

        Args:
            write_item: the entry.
            object: its value.
        """
        return object

    def resolve_data(self, write_item: WriteItem) -> Any:
        """The value that is written of an entry.

        Args:
            write_item: the entry.
        """
        return self.transform_object(write_item, self.lookup_object(write_item.index))


class DefaultLoadPlanner:
    """The planner that `load` has, which may leave entries alone that the checkpoint lacks. Programs derive planners of
    their own that read into another state (`set_up_planner`).

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
        self.flatten_sharded_tensors = flatten_sharded_tensors

    def set_up_planner(
        self, state_dict: State, metadata: object = None, is_coordinator: bool = False
    ) -> None:
        """Take the state that is read into; nested dictionaries stay as they are.

        Args:
            state_dict: the state.
            metadata: the metadata of the checkpoint.
            is_coordinator: True on the first rank.
        """
        self.state_dict, self.metadata = state_dict, metadata
        self.original_state_dict, self.is_coordinator = state_dict, is_coordinator


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """The planner with which an empty state gets what the checkpoint has.

    Args:
        keys: names of entries, or of what they are in; None: all.
    """

    def __init__(self, keys: set[str] | None = None, **options: bool) -> None:
        super().__init__(**options)
        self.keys = keys


_OWN_PLANNERS = (DefaultSavePlanner, DefaultLoadPlanner, _EmptyStateDictLoadPlanner)
_NOT_ASKED = (
    *("create_local_plan", "create_global_plan", "finish_plan", "load_bytes"),
    *("resolve_tensor", "resolve_bytes", "commit_tensor"),
)


def own_planner(planner: object, kind: type) -> Any:
    """A planner of the program's own, of a kind; None for those that there are. Errors: NotImplementedError for one of
    another kind, and for methods that are not asked here."""
    if planner is None or type(planner) in _OWN_PLANNERS:
        return None
    defined = [name for name in _NOT_ASKED if hasattr(planner, name)]
    if isinstance(planner, kind) and not defined:
        return planner
    raise NotDefinedError(
        f"checkpoint: {'what ' + ', '.join(defined) + ' does' if defined else 'such a planner'} has no effect here",
        expected=f"None, or a {kind.__name__} with set_up_planner and, to save, lookup_object, transform_object, "
        "resolve_data",
        got=type(planner).__name__,
        fix="change the state before save, or after load",
    )


def resolved(planner: DefaultSavePlanner, values: Mapping[str, object]) -> dict[str, Any]:
    """The values that a planner writes of entries by their names."""
    planner.found = dict(values)
    items = {
        name: WriteItem(
            MetadataIndex(name),
            WriteItemType.TENSOR if isinstance(value, Tensor) else WriteItemType.BYTE_IO,
        )
        for name, value in values.items()
    }
    return {name: planner.resolve_data(item) for name, item in items.items()}
