"""Distributed checkpoints: a folder that all ranks write to together, complete or not at all.

Each rank writes the tensors, or the parts of shared and large ones, that fall to it to a safetensors file; the first
rank writes what is no tensor. When all files are there, the manifest, which names them, is renamed over the one before:
until then the folder is the checkpoint that it was. Which rank wrote what does not matter to who reads: any number of
ranks, or a program of one process. What ranks have to agree on they do when a save begins; later they see each other's
files, so that a save may go on in the background.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import weft
from weft.distributed.checkpoint_metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    DefaultLoadPlanner,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
    need_default,
)
from weft.distributed.collectives.objects import all_gather_object, broadcast_object_list
from weft.distributed.errors import DistBackendError
from weft.distributed.group import Group, ProcessGroup
from weft.distributed.sharding.dtensor import DTensor, local
from weft.distributed.world import is_initialized, resolve
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, CheckpointError
from weft.io.files import read_file, write_file
from weft.io.partial_files import PartialFile
from weft.io.saving import load as load_file
from weft.io.saving import save as save_file
from weft.optim.optimizer import Optimizer

MANIFEST, FORMAT = "manifest.json", "weft-distributed-2"
SPLIT_ABOVE_BYTES = 1 << 20  # of a tensor whose rows all ranks share out
LOOK_EVERY_S = 0.01
Tree = dict[Any, Any]
State = Mapping[Any, Any]
Keys = Sequence[Any]
Box = Sequence[tuple[int, int]]  # for each dimension of a tensor, the first index and the count
Location = str | os.PathLike[str]
_under_way: list[Future[None]] = []  # the last save of this process


class FileSystemWriter:
    """The folder of a checkpoint, as PyTorch's programs name it.

    Args:
        path: the folder.
        **options: accepted, without effect.
    """

    def __init__(self, path: Location, **options: object) -> None:
        self.path = Path(path)


class FileSystemReader(FileSystemWriter):
    """The folder of a checkpoint to read.

    Args:
        path: the folder.
        **options: accepted, without effect.
    """

    def read_metadata(self) -> Metadata:
        """The metadata of the checkpoint, without its values.

        Raises:
            FileNotFoundError; CheckpointError for another folder.
        """
        manifest = _manifest(self.path)
        found: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
        paths: dict[str, tuple[str | int, ...]] = {}
        for path, _ in load_file(self.path / f"{manifest['token']}-values.safetensors"):
            found[_dotted(path)] = BytesStorageMetadata()
            paths[_dotted(path)] = tuple(path)
        for path, shape, dtype, parts in manifest["tensors"]:
            chunks = [
                ChunkStorageMetadata(*(weft.Size(numbers) for numbers in zip(*box, strict=True)))
                if box
                else ChunkStorageMetadata(weft.Size(), weft.Size())
                for _, box in parts
            ]
            properties = TensorProperties(getattr(weft, dtype))
            found[_dotted(path)] = TensorStorageMetadata(properties, weft.Size(shape), chunks)
            paths[_dotted(path)] = tuple(path)
        return Metadata(found, paths)


def _dotted(path: Keys) -> str:
    return ".".join(map(str, path))


# -- trees -----------------------------------------------------------------------------------------------------------


def _state_of(value: object) -> Any:
    """The state of an object that has one (a module, an optimizer), or the value itself."""
    return value.state_dict() if hasattr(value, "state_dict") else value


def _leaves(tree: State, path: Keys = ()) -> Iterator[tuple[list[Any], Any]]:
    """Paths of keys, and the values that are no dictionaries of something."""
    for key, value in tree.items():
        if not isinstance(key, str | int):
            raise ArgumentError(
                f"save: a checkpoint has no place for the key {key!r}",
                expected="strings and integers as keys",
                got=type(key).__name__,
                fix="name entries by strings",
            )
        state = _state_of(value)
        if isinstance(state, Mapping) and state:
            yield from _leaves(state, (*path, key))
        else:
            yield [*path, key], state


def _put(tree: Tree, path: Keys, value: object) -> None:
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = value


# -- saving ----------------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """The part of a tensor that a rank writes."""

    number: int
    box: Box


class _Save:
    """A save that has begun: what this rank writes, under names that no other save has."""

    def __init__(self, folder: Path, tree: State, group: ProcessGroup | None) -> None:
        self._folder, self._group = folder, group
        self._rank, self._size = (0, 1) if group is None else (group.rank(), group.size())
        leaves = list(_leaves(tree))
        self._values = [[path, value] for path, value in leaves if not isinstance(value, Tensor)]
        self._tensors = [
            (path, _to_write(value)) for path, value in leaves if isinstance(value, Tensor)
        ]
        self._token = self._agree()
        self._parts = [self._shares(number) for number in range(len(self._tensors))]
        own = (part for parts in self._parts for rank, part in parts if rank == self._rank)
        self._content = {str(part.number): self._values_of(part) for part in own}
        weft.realize(*self._content.values())

    def _agree(self) -> str:
        """A name for the files of this save. Errors: ValueError on ranks whose tensors differ from those of rank 0."""
        said: list[Any] = [[secrets.token_hex(6), self._described()]]
        if self._group is not None and self._size > 1:
            broadcast_object_list(said, self._group.ranks[0], self._group)
            agreed: list[object] = [False] * self._size
            all_gather_object(agreed, said[0][1] == self._described(), self._group)
            if not all(agreed):
                raise ArgumentError(
                    "save: the ranks have different tensors",
                    expected="the same names, shapes and dtypes on all ranks",
                    got=f"others on ranks {[rank for rank, same in enumerate(agreed) if not same]}",
                    fix="save under a name of its own what only one rank has, with no_dist=True",
                )
        return str(said[0][0])

    def _described(self) -> list[Any]:
        return [[path, list(_shape(value)), value.dtype.name] for path, value in self._tensors]

    def _shares(self, number: int) -> list[tuple[int, _Part]]:
        """The ranks that write a tensor, and which part: small ones in turn, the rows of a large one by all, the parts
        of one that lies over ranks by who has them."""
        tensor = self._tensors[number][1]
        if self._group is not None and isinstance(tensor, DTensor):
            return _shards(number, tensor, self._group)
        if (
            tensor.numel() * tensor.element_size() < SPLIT_ABOVE_BYTES
            or tensor.shape[0] < self._size
        ):
            return [(number % self._size, _Part(number, _all_of(tensor)))]
        bounds = [tensor.shape[0] * rank // self._size for rank in range(self._size + 1)]
        rows = [(first, end - first) for first, end in pairwise(bounds)]
        rest = _all_of(tensor)[1:]
        return [(rank, _Part(number, [own, *rest])) for rank, own in enumerate(rows)]

    def _values_of(self, part: _Part) -> Any:
        """A copy of what this rank writes of a tensor: the program may go on and change it."""
        tensor = self._tensors[part.number][1]
        if not isinstance(tensor, DTensor) and part.box:
            tensor = tensor.narrow(0, *part.box[0])
        return local(tensor).clone()

    def run(self) -> None:
        """Write, and wait until the checkpoint is complete. Errors: those of writing, on all ranks."""
        try:
            self._write()
            if self._rank == 0:
                self._wait(self._all_are_there)
                self._commit()
            else:
                self._wait(lambda: _token_of(self._folder) == self._token)
        except BaseException as error:
            with contextlib.suppress(OSError):
                (self._folder / f"{self._token}.failed").write_text(f"rank {self._rank}: {error}")
            raise

    def _write(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._rank == 0:
            save_file(self._values, self._folder / f"{self._token}-values.safetensors")
        save_file(self._content, self._folder / self._file(self._rank))

    def _file(self, rank: int) -> str:
        return f"{self._token}-{rank}.safetensors"

    def _all_are_there(self) -> bool:
        return all((self._folder / self._file(rank)).exists() for rank in range(self._size))

    def _wait(self, is_over: Callable[[], bool]) -> None:
        """Wait for files of other ranks. Errors: DistBackendError where one has failed, is gone, or does not come."""
        failed = self._folder / f"{self._token}.failed"
        deadline = time.monotonic() + (self._group.timeout if self._group else 0)
        while not is_over():
            dead = self._group.world.peers.dead() if self._group else []
            if failed.exists() or dead or time.monotonic() > deadline:
                reason = failed.read_text() if failed.exists() else f"gone are ranks {dead}"
                raise DistBackendError(
                    f"save: the checkpoint {self._folder} is not complete: {reason}",
                    expected="files of all ranks",
                    got="the checkpoint that was there before, if there was one",
                    fix="see what that rank printed",
                )
            time.sleep(LOOK_EVERY_S)

    def _commit(self) -> None:
        """Rename the manifest over the old one, and remove what it does not name."""
        tensors = [
            [*described, [[self._file(rank), part.box] for rank, part in parts]]
            for described, parts in zip(self._described(), self._parts, strict=True)
        ]
        manifest = {"format": FORMAT, "token": self._token, "tensors": tensors}
        write_file(self._folder / MANIFEST, json.dumps(manifest).encode())
        _sync(self._folder)
        for path in self._folder.glob("*-*.safetensors"):
            if not path.name.startswith(self._token):
                path.unlink(missing_ok=True)
        for left in ("*.failed", "*.tmp"):
            for path in self._folder.glob(left):
                path.unlink(missing_ok=True)


def _shape(tensor: Tensor) -> tuple[int, ...]:
    """The shape of a tensor, of a sharded one that of the whole."""
    return tuple(tensor.shape)


def _all_of(tensor: Tensor) -> Box:
    return [(0, size) for size in _shape(tensor)]


def _to_write(tensor: Tensor) -> Tensor:
    """A tensor without history; a sum that is still to be taken is taken."""
    if isinstance(tensor, DTensor) and any(p.is_partial() for p in tensor.placements):
        with weft.no_grad():
            return tensor.full_tensor()
    return tensor.detach()


def _shards(number: int, tensor: DTensor, group: ProcessGroup) -> list[tuple[int, _Part]]:
    """The ranks that write a tensor which lies over ranks, and their parts; of ranks with one part, the first."""
    owners: dict[tuple[tuple[int, int], ...], int] = {}
    spread = tensor.spread
    for coordinate in product(*map(range, spread.mesh.shape)):
        box = tuple(spread.bounds(coordinate))
        if all(count for _, count in box):
            owners.setdefault(box, int(spread.mesh.mesh[coordinate]))
    return [(group.group_rank(rank), _Part(number, box)) for box, rank in owners.items()]


def _sync(folder: Path) -> None:
    """Have the names of a folder on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _token_of(folder: Path) -> str:
    """The name of the last complete save in a folder."""
    manifest = folder / MANIFEST
    return str(json.loads(manifest.read_bytes())["token"]) if manifest.exists() else ""


def _folder(checkpoint_id: Location | None, storage: FileSystemWriter | None) -> Path:
    if checkpoint_id is None and storage is None:
        raise ArgumentError(
            "checkpoint: no place is named",
            expected="checkpoint_id, a folder",
            got="None",
            fix="pass checkpoint_id='checkpoint'",
        )
    return Path(checkpoint_id) if storage is None else storage.path  # type: ignore[arg-type]


def _members(group: Group, no_dist: bool) -> ProcessGroup | None:
    return None if no_dist or not is_initialized() else resolve(group)


def save(
    state_dict: State,
    *,
    checkpoint_id: Location | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: object = None,
    process_group: Group = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> None:
    """Write a state that all ranks have alike, or each a part of (`fully_shard`), to a folder, each rank a part of it.

    Args:
        state_dict: dictionaries of tensors, of modules and optimizers and whatever else has a `state_dict`, and of
            values that `weft.save` writes, of which the first rank's are kept.
        checkpoint_id: a folder that all ranks see; what it held stays until the new checkpoint is complete.
        storage_writer: the folder, in another form; None: `checkpoint_id` says it.
        planner: None, or `DefaultSavePlanner`, which is the same.
        process_group: the ranks that take part; None: all.
        no_dist: write what this process has, alone.
        use_collectives: accepted, without effect. Default: True.

    Raises:
        ValueError where the tensors of ranks differ; those of writing a file, on all ranks;
        RuntimeError where a rank is gone.

    Example:
        >>> import weft
        >>> import tempfile
        >>> import weft.distributed.checkpoint as dcp
        >>> model = weft.nn.Linear(3, 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dcp.save({"model": model.state_dict()}, checkpoint_id=folder)  # each rank writes its part
        ...     state = {"model": weft.nn.Linear(3, 2).state_dict()}
        ...     dcp.load(state, checkpoint_id=folder)
        ...     print(weft.equal(state["model"]["weight"], model.weight))
        True
    """
    async_save(
        state_dict,
        checkpoint_id=checkpoint_id,
        storage_writer=storage_writer,
        planner=planner,
        process_group=process_group,
        no_dist=no_dist,
    ).result()


def async_save(
    state_dict: State,
    *,
    checkpoint_id: Location | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: object = None,
    process_group: Group = None,
    no_dist: bool = False,
    **options: object,
) -> Future[None]:
    """`save`, of the values as they are now, written while the program goes on: the future's `result()` waits.

    Args:
        state_dict: what is written, as in `save`.
        checkpoint_id: a folder that all ranks see; None: `storage_writer` says it.
        storage_writer: the folder, in another form; None: `checkpoint_id` says it.
        planner: None, or `DefaultSavePlanner`, which is the same.
        process_group: the ranks that take part; None: all.
        no_dist: True: one process alone. Default: False.
        **options: accepted, without effect.

    Example:
        >>> import weft
        >>> import tempfile
        >>> import weft.distributed as dist
        >>> import weft.distributed.checkpoint as dcp
        >>> dist.init_process_group()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     writing = dcp.async_save({"step": weft.tensor(7)}, checkpoint_id=folder)
        ...     writing.result()  # training goes on until here
        >>> dist.destroy_process_group()
    """
    need_default(planner)
    folder = _folder(checkpoint_id, storage_writer)
    while _under_way:  # all ranks have ended one save before another begins
        wait([_under_way.pop()])
    begun = _Save(folder, state_dict, _members(process_group, no_dist))
    done: Future[None] = Future()
    _under_way.append(done)

    def run() -> None:
        try:
            begun.run()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="weft-checkpoint").start()
    return done


# -- loading ---------------------------------------------------------------------------------------------------------


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
    manifest = _manifest(place)
    tree: Tree = {}
    for path, value in load_file(place / f"{manifest['token']}-values.safetensors"):
        _put(tree, path, value)
    open_file = cache(lambda name: PartialFile(place / name))
    for number, (path, shape, dtype, parts) in enumerate(manifest["tensors"]):
        _put(tree, path, _Stored(open_file, str(number), shape, parts, dtype))
    return tree


def _manifest(place: Path) -> dict[str, Any]:
    """The manifest of a folder. Errors: FileNotFoundError, CheckpointError."""
    manifest: dict[str, Any] = json.loads(read_file(place / MANIFEST))
    if manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"load: {place} is no checkpoint of weft.distributed",
            expected=f"a manifest of the format {FORMAT}",
            got=repr(manifest.get("format")),
            fix="name the folder that save wrote",
        )
    return manifest


def _in_memory(found: object, like: object = None) -> Any:
    """A tree of a checkpoint with its tensors in memory, laid out as those of another tree where it has them."""
    if isinstance(found, _Stored):
        return found.like(like)
    if not isinstance(found, dict):
        return found
    others = like if isinstance(like, Mapping) else {}
    return {key: _in_memory(value, others.get(key)) for key, value in found.items()}


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
            with weft.no_grad():
                value.copy_(_in_memory(new, value))
        elif isinstance(value, dict) and value:
            _fill(value, new, f"{path}{key}.", is_partial)
        else:
            target[key] = _in_memory(new)


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
            is; None: that is an error.
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
        ...     dcp.save({"step": weft.tensor(7)}, checkpoint_id=folder)
        ...     state = {"step": weft.tensor(0)}  # what is wanted, as many ranks as there are now
        ...     dcp.load(state, checkpoint_id=folder)
        ...     print(state["step"])
        tensor(7)
    """
    need_default(planner)
    is_partial = isinstance(planner, DefaultLoadPlanner) and planner.allow_partial_load
    _fill(state_dict, _read(_folder(checkpoint_id, storage_reader)), "", is_partial)


def dcp_to_torch_save(dcp_checkpoint_dir: Location, torch_save_path: Location) -> None:
    """Write a checkpoint as one file, which `weft.load` reads."""
    save_file(_in_memory(_read(Path(dcp_checkpoint_dir))), torch_save_path)


def torch_save_to_dcp(torch_save_path: Location, dcp_checkpoint_dir: Location) -> None:
    """Write a file of `weft.save` as a checkpoint."""
    save(load_file(torch_save_path), checkpoint_id=dcp_checkpoint_dir, no_dist=True)
