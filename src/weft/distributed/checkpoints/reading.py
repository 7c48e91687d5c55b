"""Reading of checkpoints: what their manifest names is put together and given to tensors, modules and optimizers.

Any number of ranks reads what any number wrote; a rank reads no more than its part of tensors that lie over ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import weft
from weft.distributed.checkpoints.files import (
    Box,
    FileSystemReader,
    Keys,
    Location,
    State,
    Tree,
    dotted,
    folder_of,
    is_branch,
    read_manifest,
    save,
)
from weft.distributed.checkpoints.planners import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner,
    own_planner,
)
from weft.distributed.group import Group
from weft.distributed.sharding.dtensor import DTensor
from weft.distributed.world import is_initialized, resolve
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import CheckpointError
from weft.io.partial_files import PartialFile
from weft.io.saving import load as load_file
from weft.io.saving import save as save_file
from weft.optim.optimizer import Optimizer


class _Stored:
    """A tensor of a checkpoint that is on disk: its shape, and the files that have parts of it."""

    def __init__(
        self,
        open_file: Callable[[str], PartialFile],
        name: str,
        shape: Sequence[int],
        parts: Sequence[tuple[str, Box]],
        dtype: str,
    ) -> None:
        self._open, self._name, self.shape, self._parts = open_file, name, tuple(shape), parts
        self._dtype: DType = getattr(weft, dtype)

    def whole(self) -> Any:
        """All of it."""
        if not self.shape:
            return self._open(self._parts[0][0]).read(self._name).reshape(())
        return self.part([(0, size) for size in self.shape])

    def part(self, box: Box) -> Any:
        """A part, read from the files that have something of it."""
        found = weft.empty([count for _, count in box], dtype=self._dtype)
        for file, stored in self._parts:
            shared = [_overlap(wanted, there) for wanted, there in zip(box, stored, strict=True)]
            if not all(count for _, count in shared):
                continue
            within = [(f - there[0], n) for (f, n), there in zip(shared, stored, strict=True)]
            values = self._open(file).read(self._name, within)
            if values.shape == found.shape:
                return values
            target = found
            for dim, ((first, count), wanted) in enumerate(zip(shared, box, strict=True)):
                target = target.narrow(dim, first - wanted[0], count)
            target.copy_(values)
        return found

    def like(self, target: object) -> Any:
        """The tensor, laid out as another one of its shape: of that only this rank's part is read."""
        if not isinstance(target, DTensor) or target.spread.shape != self.shape or not self.shape:
            return self.whole()
        spread = target.spread
        if any(placement.is_partial() for placement in spread.placements):
            return self.whole()
        return DTensor(self.part(spread.bounds()), spread)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """The first index, and the count, of what two ranges share."""
    first = max(one[0], other[0])
    return first, max(min(sum(one), sum(other)) - first, 0)


def _read(place: Path) -> Tree:
    """The tree of a checkpoint, with tensors that are on disk yet, or of a file of `weft.save`. Errors:
    FileNotFoundError, CheckpointError."""
    if not place.is_dir():
        return dict(load_file(place))
    manifest = read_manifest(place)
    tree: Tree = {}
    for path, value in load_file(place / f"{manifest['token']}-values.safetensors"):
        _put(tree, path, value)
    open_file = cache(lambda name: PartialFile(place / name))
    for number, (path, shape, dtype, parts) in enumerate(manifest["tensors"]):
        _put(tree, path, _Stored(open_file, str(number), shape, parts, dtype))
    return {key: _with_lists(entry) for key, entry in tree.items()}


class _Index(int):
    """The index of an entry of a list, as a key."""


def _put(tree: Tree, path: Keys, value: object) -> None:
    """Put a value under a path, into dictionaries."""
    keys = [_Index(key[0]) if isinstance(key, list | tuple) else key for key in path]
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
    tree[keys[-1]] = value


def _with_lists(tree: object) -> Any:
    """A tree with lists in the place of dictionaries whose keys are indices."""
    if not isinstance(tree, dict) or not tree:
        return tree
    entries = {key: _with_lists(entry) for key, entry in tree.items()}
    if isinstance(next(iter(entries)), _Index):
        return [entries[key] for key in sorted(entries)]
    return entries


def _in_memory(found: object, like: object = None) -> Any:
    """A tree of a checkpoint with its tensors in memory, laid out as those of another tree where it has them."""
    if isinstance(found, _Stored):
        return found.like(like)
    if isinstance(found, list):
        others = like if isinstance(like, list) and len(like) == len(found) else [None] * len(found)
        return [_in_memory(entry, other) for entry, other in zip(found, others, strict=True)]
    if not isinstance(found, dict):
        return found
    layouts = like if isinstance(like, Mapping) else {}
    return {key: _in_memory(value, layouts.get(key)) for key, value in found.items()}


class _Stateful(Protocol):
    """A module, an optimizer, or what else has a state."""

    def state_dict(self) -> State:
        """The state."""


def _layout_of(owner: _Stateful | Optimizer) -> State:
    """A tree like the state of a module or an optimizer; the state of a parameter lies as the parameter does."""
    if not isinstance(owner, Optimizer):
        return owner.state_dict()
    parameters = [p for group in owner.param_groups for p in group["params"]]
    return {"state": {number: _Always(p) for number, p in enumerate(parameters)}}


class _Always(dict[Any, Any]):
    """A dictionary with one value under all keys."""

    def __init__(self, value: object) -> None:
        self._value = value

    def get(self, key: object, default: object = None) -> Any:
        """The value."""
        return self._value


def _fill(target: Tree, found: State, path: str, is_partial: bool = False) -> None:
    """Put what was read into the values of a dictionary; with `is_partial` those that were not read stay."""
    for key, value in list(target.items()):
        if key not in found:
            if is_partial:
                continue
            raise CheckpointError(
                f"load: the checkpoint has no entry {path}{key}",
                expected=f"one of {list(found)[:20]}",
                got=repr(key),
                fix="load the state that was saved, or a part of it",
            )
        new = found[key]
        if hasattr(value, "load_state_dict"):
            value.load_state_dict(_in_memory(new, _layout_of(value)))
        elif isinstance(value, Tensor):
            read = _in_memory(new, value)
            _need_shape(read, value, f"{path}{key}")
            with weft.no_grad():
                value.copy_(read)
        elif isinstance(value, dict) and value:
            _fill(value, new, f"{path}{key}.", is_partial)
        elif isinstance(value, list) and isinstance(new, list) and is_branch(value):
            entries: Tree = dict(enumerate(value))
            _fill(entries, dict(enumerate(new)), f"{path}{key}.", is_partial)
            value[:] = entries.values()
        else:
            target[key] = _in_memory(new)


def _need_shape(read: object, target: Tensor, name: str) -> None:
    """Errors: CheckpointError for a tensor of another shape."""
    shape = getattr(read, "shape", None)
    if shape != target.shape:
        raise CheckpointError(
            f"Size mismatch between saved {shape} and current: {target.shape} for {name}",
            expected="the shape that was saved",
            got=f"{list(target.shape)} for {name}",
            fix="load into a model of the same sizes",
        )


def load(
    state_dict: Tree,
    *,
    checkpoint_id: Location | None = None,
    storage_reader: FileSystemReader | None = None,
    planner: object = None,
    process_group: Group = None,
    no_dist: bool = False,
) -> None:
    """Read the entries of a state from a folder that `save` wrote, on any number of ranks, or a file of `weft.save`.

    Tensors get their values in place, what has a `load_state_dict` is called, other values
    are replaced.

    Args:
        state_dict: the entries wanted; tensors in it get their values.
        checkpoint_id: the folder, or a file of `weft.save`; None: `storage_reader` says it.
        storage_reader: the folder, in another form; None: `checkpoint_id` says it.
        planner: `DefaultLoadPlanner(allow_partial_load=True)`: what the checkpoint lacks stays as it
            is; or one derived from it; None: that is an error.
        process_group: the ranks that take part; None: all.
        no_dist: True: one process alone. Default: False.

    Raises:
        FileNotFoundError; CheckpointError for an entry that is not there, and for damaged
        files.

    Example:
        >>> import weft
        >>> import tempfile
        >>> import weft.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = dcp.save({"step": weft.tensor(7)}, checkpoint_id=folder)
        ...     state = {"step": weft.tensor(0)}  # what is wanted, as many ranks as there are now
        ...     dcp.load(state, checkpoint_id=folder)
        ...     print(state["step"])
        tensor(7)
    """
    own = own_planner(planner, DefaultLoadPlanner)
    place = folder_of(checkpoint_id, storage_reader)
    found = _read(place)
    if own is not None:
        metadata = FileSystemReader(place).read_metadata() if place.is_dir() else None
        is_first = no_dist or not is_initialized() or resolve(process_group).rank() == 0
        own.set_up_planner(state_dict, metadata, is_first)
        state_dict = own.state_dict
    if isinstance(planner, _EmptyStateDictLoadPlanner) and not state_dict:
        state_dict.update(_in_memory(_named(found, planner.keys)))
        return
    is_partial = isinstance(planner, DefaultLoadPlanner) and planner.allow_partial_load
    _fill(state_dict, found, "", is_partial)


def _named(tree: Tree, keys: set[str] | None, path: Keys = ()) -> Tree:
    """The entries of a tree whose name, or that of a branch that they are in, is one of some; None: all."""
    found: Tree = {}
    for key, value in tree.items():
        if keys is None or dotted((*path, key)) in keys:
            found[key] = value
        elif isinstance(value, dict) and (inner := _named(value, keys, (*path, key))):
            found[key] = inner
    return found


def load_state_dict(
    state_dict: Tree,
    storage_reader: FileSystemReader,
    process_group: Group = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: object = None,
) -> None:
    """`load`, under its older name.

    Args:
        state_dict: the entries wanted, as in `load`.
        storage_reader: the folder.
        process_group: the ranks that take part; None: all.
        coordinator_rank: accepted, without effect. Default: 0.
        no_dist: True: one process alone. Default: False.
        planner: as in `load`; None: the default.
    """
    load(state_dict, storage_reader=storage_reader, planner=planner)


_load_state_dict = load_state_dict  # PyTorch's name


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None,
    *,
    checkpoint_id: Location | None = None,
    storage_reader: FileSystemReader | None = None,
    process_group: Group = None,
) -> Tree:
    """The entries of some names, or of all, with new tensors."""
    state: Tree = {}
    planner = _EmptyStateDictLoadPlanner({keys} if isinstance(keys, str) else keys)
    load(state, checkpoint_id=checkpoint_id, storage_reader=storage_reader, planner=planner)
    return state


def dcp_to_torch_save(dcp_checkpoint_dir: Location, torch_save_path: Location) -> None:
    """Write a checkpoint as one file, which `weft.load` reads."""
    save_file(_in_memory(_read(Path(dcp_checkpoint_dir))), torch_save_path)


def torch_save_to_dcp(torch_save_path: Location, dcp_checkpoint_dir: Location) -> None:
    """Write a file of `weft.save` as a checkpoint."""
    save(load_file(torch_save_path), checkpoint_id=dcp_checkpoint_dir, no_dist=True)
