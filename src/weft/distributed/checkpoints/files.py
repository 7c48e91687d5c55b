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
import math
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import weft
from weft.distributed.checkpoints.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from weft.distributed.checkpoints.planners import DefaultSavePlanner, own_planner, resolved
from weft.distributed.checkpoints.staging import (
    AsyncCheckpointerType,
    AsyncSaveResponse,
    DefaultStager,
)
from weft.distributed.collectives.objects import all_gather_object, broadcast_object_list
from weft.distributed.errors import DistBackendError
from weft.distributed.group import Group, ProcessGroup
from weft.distributed.sharding.dtensor import DTensor, local
from weft.distributed.world import is_initialized, resolve
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, CheckpointError
from weft.io.files import read_file, write_file
from weft.io.saving import load as load_file
from weft.io.saving import save as save_file

MANIFEST = "manifest.json"
FORMATS = (
    "weft-distributed-2",
    "weft-distributed-3",
)  # those that can be read, the last is written
SPLIT_ABOVE_BYTES = 1 << 20  # of a tensor whose rows all ranks share out
LOOK_EVERY_S = 0.01
Tree = dict[Any, Any]
State = Mapping[Any, Any]
Key = str | int | Sequence[int]  # of an entry of a list, a tuple of its index
Keys = Sequence[Key]
Described = tuple[Keys, Sequence[int], str, Sequence[Sequence[tuple[int, int]]]]
Box = Sequence[tuple[int, int]]  # for each dimension of a tensor, the first index and the count
Location = str | os.PathLike[str]
_under_way: list[Future[Metadata]] = []  # the last save of this process


class _Folder:
    """The folder of a checkpoint, under the name that PyTorch's programs know it by.

    Args:
        path: the folder.
        **options: accepted, without effect.
    """

    def __init__(self, path: Location, **options: object) -> None:
        self.path = Path(path)

    @property
    def checkpoint_id(self) -> Location:
        """The folder."""
        return self.path

    def reset(self, checkpoint_id: Location | None = None) -> None:
        """Take another folder.

        Args:
            checkpoint_id: the folder; None: the one that it has.
        """
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Location) -> bool:
        """True if it can be the path of a folder, and not an address.

        Args:
            checkpoint_id: the folder.
        """
        return "://" not in str(checkpoint_id)


class FileSystemWriter(_Folder):
    """The folder that a checkpoint is written to.

    Args:
        path: the folder.
        overwrite: False: a checkpoint that is there is an error. Default: True.
        **options: accepted, without effect.

    Example:
        >>> import tempfile
        >>> import weft
        >>> import weft.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = dcp.save({"step": weft.tensor(7)}, storage_writer=dcp.FileSystemWriter(folder))
        >>> list(found.state_dict_metadata)
        ['step']
    """

    def __init__(self, path: Location, *, overwrite: bool = True, **options: object) -> None:
        super().__init__(path)
        self.overwrite = overwrite


class FileSystemReader(_Folder):
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
        manifest = read_manifest(self.path)
        values = load_file(self.path / f"{manifest['token']}-values.safetensors")
        tensors = [
            (path, shape, dtype, [box for _, box in parts])
            for path, shape, dtype, parts in manifest["tensors"]
        ]
        return _described(tensors, [path for path, _ in values])


def read_manifest(place: Path) -> dict[str, Any]:
    """The manifest of a folder. Errors: FileNotFoundError, CheckpointError."""
    manifest: dict[str, Any] = json.loads(read_file(place / MANIFEST))
    if manifest.get("format") not in FORMATS:
        raise CheckpointError(
            f"load: {place} is no checkpoint of weft.distributed",
            expected=f"a manifest of the format {FORMATS[-1]}",
            got=repr(manifest.get("format")),
            fix="name the folder that save wrote",
        )
    return manifest


def dotted(path: Keys) -> str:
    """The name of an entry: its keys with dots between."""
    return ".".join(str(_plain_key(key)) for key in path)


def _described(tensors: Sequence[Described], values: Sequence[Keys]) -> Metadata:
    """The metadata of tensors, by their path, shape, type and boxes, and of the paths of other values."""
    found: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
    for path in values:
        found[dotted(path)] = BytesStorageMetadata()
    for path, shape, dtype, boxes in tensors:
        chunks = [
            ChunkStorageMetadata(*(weft.Size(numbers) for numbers in zip(*box, strict=True)))
            if box
            else ChunkStorageMetadata(weft.Size(), weft.Size())
            for box in boxes
        ]
        properties = TensorProperties(getattr(weft, dtype))
        found[dotted(path)] = TensorStorageMetadata(properties, weft.Size(shape), chunks)
    paths = [*values, *(path for path, *_ in tensors)]
    return Metadata(found, {dotted(path): tuple(map(_plain_key, path)) for path in paths})


def _plain_key(key: Key) -> str | int:
    """A key, of an entry of a list its index."""
    return key if isinstance(key, str | int) else key[0]


# -- trees -----------------------------------------------------------------------------------------------------------


def _state_of(value: object) -> Any:
    """The state of an object that has one (a module, an optimizer), or the value itself."""
    return value.state_dict() if hasattr(value, "state_dict") else value


def is_branch(value: object) -> bool:
    """True for dictionaries of something, and for lists that have tensors or dictionaries."""
    if isinstance(value, list):
        return any(isinstance(entry, Tensor | Mapping) or is_branch(entry) for entry in value)
    return isinstance(value, Mapping) and bool(value)


def _leaves(tree: State | list[object], path: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Paths of keys, and the values that are no branches."""
    for key, value in _entries_of(tree):
        state = _state_of(value)
        if is_branch(state):
            yield from _leaves(state, (*path, key))
        else:
            yield (*path, key), state


def _planned(
    planner: DefaultSavePlanner, tree: State, is_first: bool
) -> Iterator[tuple[Keys, Any]]:
    """Paths of keys, and the values that a planner of the program's own writes there."""
    planner.set_up_planner(dict(tree), None, is_first)
    leaves = list(_leaves(planner.state_dict))
    values = resolved(planner, {dotted(path): value for path, value in leaves})
    yield from ((path, values[dotted(path)]) for path, _ in leaves)


def _entries_of(tree: State | list[object]) -> Iterator[tuple[Key, Any]]:
    """The keys and values of a dictionary, or of a list."""
    if isinstance(tree, list):
        yield from (((index,), value) for index, value in enumerate(tree))
        return
    for key, value in tree.items():
        if not isinstance(key, str | int):
            raise ArgumentError(
                f"save: a checkpoint has no place for the key {key!r}",
                expected="strings and integers as keys",
                got=type(key).__name__,
                fix="name entries by strings",
            )
        yield key, value


# -- saving ----------------------------------------------------------------------------------------------------------


class _Entry(NamedTuple):
    """A tensor of a checkpoint, and who writes which part of it."""

    path: Keys
    shape: Sequence[int]
    dtype: str
    shares: list[tuple[int, Box]]

    def shared_by(self, owners: Sequence[int], number: int) -> _Entry:
        """The entry, written by ranks that all have it: small ones in turn, the rows of a large one by all; one that
        lies over ranks as it is."""
        if self.shares:
            return self
        every = [(0, size) for size in self.shape]
        size = math.prod(self.shape) * getattr(weft, self.dtype).itemsize
        if size < SPLIT_ABOVE_BYTES or self.shape[0] < len(owners):
            return self._replace(shares=[(owners[number % len(owners)], every)])
        bounds = [self.shape[0] * rank // len(owners) for rank in range(len(owners) + 1)]
        rows = [(first, end - first) for first, end in pairwise(bounds)]
        parts: list[Box] = [[own, *every[1:]] for own in rows]
        return self._replace(shares=list(zip(owners, parts, strict=True)))


class _Save:
    """A save that has begun: what this rank writes, under names that no other save has."""

    def __init__(
        self,
        folder: Path,
        tree: State,
        group: ProcessGroup | None,
        planner: DefaultSavePlanner | None = None,
    ) -> None:
        self._folder, self._group = folder, group
        self._rank, self._size = (0, 1) if group is None else (group.rank(), group.size())
        leaves = list(_leaves(tree) if planner is None else _planned(planner, tree, not self._rank))
        self._values = {path: value for path, value in leaves if not isinstance(value, Tensor)}
        self._tensors = {
            path: _to_write(value) for path, value in leaves if isinstance(value, Tensor)
        }
        self._token, self._entries = self._agree()
        own = {
            number: (self._tensors[entry.path], box)
            for number, entry in enumerate(self._entries)
            for rank, box in entry.shares
            if rank == self._rank
        }
        self._content = {str(number): _copy_of(*part) for number, part in own.items()}
        weft.realize(*self._content.values())

    def _agree(self) -> tuple[str, list[_Entry]]:
        """A name for the files of this save, and the tensors of all ranks. Errors: ValueError on all ranks where the
        tensors of one name differ."""
        own = [self._entry(path, tensor) for path, tensor in self._tensors.items()]
        token = secrets.token_hex(6)
        everybody = range(self._size)
        if self._group is not None and self._size > 1:
            described = [[entry[:3] for entry in own], list(self._values)]
            said: list[Any] = [[token, described]]
            broadcast_object_list(said, self._group.ranks[0], self._group)
            token = str(said[0][0])
            agreed: list[object] = [False] * self._size
            all_gather_object(agreed, _as_sent(said[0][1]) == _as_sent(described), self._group)
            if not all(agreed):
                return token, self._united(own, self._group)
        return token, [entry.shared_by(everybody, number) for number, entry in enumerate(own)]

    def _entry(self, path: Keys, tensor: Tensor) -> _Entry:
        is_over_ranks = self._group is not None and isinstance(tensor, DTensor)
        shares = _shards(tensor, self._group) if is_over_ranks else []  # type: ignore[arg-type]
        return _Entry(path, list(tensor.shape), tensor.dtype.name, shares)

    def _united(self, own: list[_Entry], group: ProcessGroup) -> list[_Entry]:
        """The tensors of ranks that have different ones, as the stages of a pipeline do; the first rank gets the
        values that it lacks."""
        said: list[Any] = [None] * self._size
        all_gather_object(said, [[list(entry) for entry in own], list(self._values)], group)
        owners: dict[Keys, list[int]] = {}
        found: dict[Keys, _Entry] = {}
        known = {_key(path) for path in said[0][1]}
        for rank, (entries, _) in enumerate(said):
            for path, shape, dtype, shares in entries:
                entry = _Entry(_key(path), list(shape), dtype, [(r, box) for r, box in shares])
                first = found.setdefault(entry.path, entry)
                if (first.shape, first.dtype) != (entry.shape, entry.dtype):
                    raise _differs(first, entry, owners[entry.path][0], rank)
                owners.setdefault(entry.path, []).append(rank)
        more: list[Any] = [None] * self._size
        lacking = [[path, value] for path, value in self._values.items() if path not in known]
        all_gather_object(more, lacking, group)
        for path, value in (pair for pairs in more for pair in pairs):
            self._values.setdefault(_key(path), value)
        return [
            entry.shared_by(owners[path], number)
            for number, (path, entry) in enumerate(found.items())
        ]

    def metadata(self) -> Metadata:
        """The metadata of the checkpoint."""
        tensors = [(*entry[:3], [box for _, box in entry.shares]) for entry in self._entries]
        return _described(tensors, list(self._values))

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
            values = [[list(path), value] for path, value in self._values.items()]
            save_file(values, self._folder / f"{self._token}-values.safetensors")
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
            [*entry[:3], [[self._file(rank), box] for rank, box in entry.shares]]
            for entry in self._entries
        ]
        manifest = {"format": FORMATS[-1], "token": self._token, "tensors": tensors}
        write_file(self._folder / MANIFEST, json.dumps(manifest).encode())
        _sync(self._folder)
        for path in self._folder.glob("*-*.safetensors"):
            if not path.name.startswith(self._token):
                path.unlink(missing_ok=True)
        for left in ("*.failed", "*.tmp"):
            for path in self._folder.glob(left):
                path.unlink(missing_ok=True)


def _key(path: Keys) -> Keys:
    """A path as it was before it travelled, which makes lists of tuples."""
    return tuple(tuple(key) if isinstance(key, list) else key for key in path)


def _as_sent(value: object) -> str:
    """A description as text, in which lists and tuples are alike."""
    return json.dumps(value)


def _differs(first: _Entry, other: _Entry, rank: int, other_rank: int) -> ArgumentError:
    return ArgumentError(
        "save: the ranks have different tensors",
        expected="one shape and dtype of a name on all ranks that have it",
        got=f"{dotted(first.path)}: {first.dtype}{list(first.shape)} on rank {rank}, "
        f"{other.dtype}{list(other.shape)} on rank {other_rank}",
        fix="save under a name of its own what only one rank has",
    )


def _copy_of(tensor: Tensor, box: Box) -> Any:
    """A copy of what this rank writes of a tensor: the program may go on and change it."""
    if not isinstance(tensor, DTensor) and box:
        tensor = tensor.narrow(0, *box[0])
    return local(tensor).clone()


def _to_write(tensor: Tensor) -> Tensor:
    """A tensor without history; a sum that is still to be taken is taken."""
    if isinstance(tensor, DTensor) and any(p.is_partial() for p in tensor.placements):
        with weft.no_grad():
            return tensor.full_tensor()
    return tensor.detach()


def _shards(tensor: DTensor, group: ProcessGroup) -> list[tuple[int, Box]]:
    """The ranks that write a tensor which lies over ranks, and their parts; of ranks with one part, the first."""
    owners: dict[tuple[tuple[int, int], ...], int] = {}
    spread = tensor.spread
    for coordinate in product(*map(range, spread.mesh.shape)):
        box = tuple(spread.bounds(coordinate))
        if all(count for _, count in box):
            owners.setdefault(box, int(spread.mesh.mesh[coordinate]))
    return [(group.group_rank(rank), box) for box, rank in owners.items()]


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


def folder_of(checkpoint_id: Location | None, storage: _Folder | None) -> Path:
    """The folder that the arguments mean. Errors: RuntimeError where they name none."""
    if checkpoint_id is None and storage is None:
        raise ArgumentError(
            "`checkpoint_id` must be specified if storage_reader/storage_writer is None.",
            expected="checkpoint_id, a folder",
            got="None",
            fix="pass checkpoint_id='checkpoint'",
        )
    if storage is None:
        return Path(checkpoint_id)  # type: ignore[arg-type]
    storage.reset(checkpoint_id)
    return storage.path


def _need_room(folder: Path, writer: FileSystemWriter | None) -> None:
    """Errors: RuntimeError for a folder with a checkpoint that is not to be replaced."""
    if writer is not None and not getattr(writer, "overwrite", True) and _token_of(folder):
        raise CheckpointError(
            "Checkpoint already exists and self.overwrite=False.",
            expected="a folder without a checkpoint",
            got=str(folder),
            fix="name another folder, or pass overwrite=True",
        )


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
) -> Metadata:
    """Write a state that all ranks have alike, or each a part of (`fully_shard`), to a folder, each rank a part of it.

    Args:
        state_dict: dictionaries of tensors, of modules and optimizers and whatever else has a `state_dict`, and of
            values that `weft.save` writes, of which the first rank's are kept.
        checkpoint_id: a folder that all ranks see; what it held stays until the new checkpoint is complete.
        storage_writer: the folder, in another form; None: `checkpoint_id` says it.
        planner: a `DefaultSavePlanner`, or one derived from it; None: the state as it is.
        process_group: the ranks that take part; None: all.
        no_dist: write what this process has, alone.
        use_collectives: accepted, without effect. Default: True.

    Tensors that only some ranks have, as the stages of a pipeline, are written by these. The result is the metadata of
    the checkpoint.

    Raises:
        ValueError where the tensors of ranks differ; those of writing a file, on all ranks;
        RuntimeError where a rank is gone.

    Example:
        >>> import weft
        >>> import tempfile
        >>> import weft.distributed.checkpoint as dcp
        >>> model = weft.nn.Linear(3, 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = dcp.save({"model": model.state_dict()}, checkpoint_id=folder)  # each rank its part
        ...     state = {"model": weft.nn.Linear(3, 2).state_dict()}
        ...     dcp.load(state, checkpoint_id=folder)
        ...     print(weft.equal(state["model"]["weight"], model.weight))
        True
    """
    return _begin(
        state_dict, checkpoint_id, storage_writer, planner, process_group, no_dist
    ).result()


def _begin(
    state: State,
    checkpoint_id: Location | None,
    writer: FileSystemWriter | None,
    planner: object,
    group: Group,
    no_dist: bool,
) -> Future[Metadata]:
    """A save that goes on in the background."""
    own = own_planner(planner, DefaultSavePlanner)
    folder = folder_of(checkpoint_id, writer)
    while _under_way:  # all ranks have ended one save before another begins
        wait([_under_way.pop()])
    _need_room(folder, writer)
    begun = _Save(folder, state, _members(group, no_dist), own)
    done: Future[Metadata] = Future()
    _under_way.append(done)

    def run() -> None:
        try:
            begun.run()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(begun.metadata())

    threading.Thread(target=run, name="weft-checkpoint").start()
    return done


def async_save(
    state_dict: State,
    *,
    checkpoint_id: Location | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: object = None,
    process_group: Group = None,
    no_dist: bool = False,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: object = None,
    **options: object,
) -> Any:
    """`save`, of the values as they are now, written while the program goes on: the future's `result()` waits.

    Args:
        state_dict: what is written, as in `save`.
        checkpoint_id: a folder that all ranks see; None: `storage_writer` says it.
        storage_writer: the folder, in another form; None: `checkpoint_id` says it.
        planner: a `DefaultSavePlanner`, or one derived from it; None: the state as it is.
        process_group: the ranks that take part; None: all.
        no_dist: True: one process alone. Default: False.
        async_checkpointer_type: accepted: a thread writes in any case.
        async_stager: accepted: values are copied at the call. With a `DefaultStager` that stages asynchronously the
            result has two futures, as PyTorch's; None: one.
        **options: accepted, without effect.

    Example:
        >>> import weft
        >>> import tempfile
        >>> import weft.distributed as dist
        >>> import weft.distributed.checkpoint as dcp
        >>> dist.init_process_group()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     writing = dcp.async_save({"step": weft.tensor(7)}, checkpoint_id=folder)
        ...     found = writing.result()  # training goes on until here
        >>> dist.destroy_process_group()
    """
    done = _begin(state_dict, checkpoint_id, storage_writer, planner, process_group, no_dist)
    is_staged = isinstance(async_stager, DefaultStager) and async_stager.config.use_async_staging
    return AsyncSaveResponse.of(done) if is_staged else done


def save_state_dict(
    state_dict: State,
    storage_writer: FileSystemWriter,
    process_group: Group = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: object = None,
) -> Metadata:
    """`save`, under its older name.

    Args:
        state_dict: what is written, as in `save`.
        storage_writer: the folder.
        process_group: the ranks that take part; None: all.
        coordinator_rank: accepted, without effect. Default: 0.
        no_dist: True: one process alone. Default: False.
        planner: a `DefaultSavePlanner`, or one derived from it; None: the state as it is.
    """
    return save(
        state_dict,
        storage_writer=storage_writer,
        process_group=process_group,
        no_dist=no_dist,
        planner=planner,
    )
