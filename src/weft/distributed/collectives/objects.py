"""Collectives of Python objects, as the bytes of a file of `weft.save`.

They are read as `weft.load` reads: plain values, tensors and arrays, and classes that `serialization.add_safe_globals`
names. Nothing that comes from another process is run.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import weft
from weft.distributed.collectives.operations import all_gather, all_to_all_single, broadcast
from weft.distributed.group import Group, ProcessGroup
from weft.distributed.point_to_point import recv, send
from weft.distributed.world import joined
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError
from weft.io import saving


def _packed(obj: object) -> Tensor:
    """An object as bytes. Errors: CheckpointError on the sender for one that the receivers would refuse."""
    file = io.BytesIO()
    saving.save([obj], file)
    file.seek(0)
    saving.load(file)
    return weft.frombuffer(bytearray(file.getvalue()), dtype=weft.uint8)


def _unpacked(content: Tensor) -> Any:
    return saving.load(io.BytesIO(content.numpy().tobytes()))[0]


def _gathered(obj: object, group: ProcessGroup) -> list[Any]:
    """The objects of all ranks."""
    mine = _packed(obj)
    sizes = [weft.zeros(1, dtype=weft.int64) for _ in range(group.size())]
    all_gather(sizes, weft.tensor([mine.numel()]), group)
    lengths = [int(size) for size in sizes]
    padded = weft.zeros(max(lengths), dtype=weft.uint8)
    padded[: mine.numel()] = mine
    rows = [weft.empty_like(padded) for _ in lengths]
    all_gather(rows, padded, group)
    return [_unpacked(row[:length]) for row, length in zip(rows, lengths, strict=True)]


def _wrong_length(name: str, places: Sequence[object] | None, count: int) -> ArgumentError:
    return ArgumentError(
        f"{name}: a list of {0 if places is None else len(places)} for a group of {count}",
        expected=f"a list of {count}",
        got="none" if places is None else f"{len(places)} entries",
        fix="make it as [None] * get_world_size(group)",
    )


def _fill(name: str, places: list[object] | None, received: Sequence[object]) -> None:
    """Put objects into a list. Errors: ValueError for a list of another length."""
    count = len(received)
    if places is None or len(places) != count:
        raise _wrong_length(name, places, count)
    places[:] = received


def all_gather_object(object_list: list[object], obj: object, group: Group = None) -> None:
    """Put the objects of all ranks into a list, on every rank.

    Args:
        object_list: a list with a place for each rank, which is filled.
        obj: what this rank gives: numbers, text, containers and tensors, as `weft.save` takes them.
        group: the processes that take part; None: all.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> found = [None] * dist.get_world_size()
        >>> dist.all_gather_object(found, {"rank": dist.get_rank(), "words": 120})
        >>> found
        [{'rank': 0, 'words': 120}]
        >>> dist.destroy_process_group()
    """
    if (found := joined(group, "all_gather_object")) is None:
        return
    _fill("all_gather_object", object_list, _gathered(obj, found))


def gather_object(
    obj: object,
    object_gather_list: list[object] | None = None,
    dst: int | None = None,
    group: Group = None,
    group_dst: int | None = None,
) -> None:
    """Put the objects of all ranks into a list of one rank.

    Args:
        obj: what this rank gives: numbers, text, containers and tensors, as `weft.save` takes them.
        object_gather_list: on the receiver a list with a place for each rank; None: elsewhere.
        dst, group_dst: the receiver, by its rank in the world or its number in the group; None in both: rank 0.
        group: the processes that take part; None: all.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> found = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
        >>> dist.gather_object("done", found, dst=0)
        >>> found
        ['done']
        >>> dist.destroy_process_group()
    """
    if (found := joined(group, "gather_object")) is None:
        return
    root = found.member(0 if dst is None and group_dst is None else dst, group_dst, "dst")
    gathered = _gathered(obj, found)
    if found.rank() == root:
        _fill("gather_object", object_gather_list, gathered)


def broadcast_object_list(
    object_list: list[object],
    src: int | None = None,
    group: Group = None,
    device: object = None,
    group_src: int | None = None,
) -> None:
    """Replace the objects in the lists of all ranks by those of one.

    Args:
        object_list: the objects that are sent, or as many places for them.
        src, group_src: the sender, by its rank in the world or its number in the group; None in both: rank 0.
        group: the processes that take part; None: all.
        device: accepted, without effect: objects travel as bytes; None: the same.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> settings = [{"lr": 0.01}] if dist.get_rank() == 0 else [None]
        >>> dist.broadcast_object_list(settings, src=0)
        >>> settings[0]["lr"]
        0.01
        >>> dist.destroy_process_group()
    """
    if (found := joined(group, "broadcast_object_list")) is None:
        return
    root = found.member(0 if src is None and group_src is None else src, group_src, "src")
    content = _packed(list(object_list)) if found.rank() == root else None
    length = weft.tensor([0 if content is None else content.numel()])
    broadcast(length, group=found, group_src=root)
    if content is None:
        content = weft.zeros(int(length), dtype=weft.uint8)
    broadcast(content, group=found, group_src=root)
    if found.rank() != root:
        _fill("broadcast_object_list", object_list, _unpacked(content))


def scatter_object_list(
    scatter_object_output_list: list[object],
    scatter_object_input_list: list[object] | None = None,
    src: int | None = None,
    group: Group = None,
    group_src: int | None = None,
) -> None:
    """Put each rank's entry of one rank's list into the first place of its own list.

    Args:
        scatter_object_output_list: a list whose first place gets this rank's object.
        scatter_object_input_list: on the sender an object for each rank; None: elsewhere.
        src, group_src: the sender, by its rank in the world or its number in the group; None in both: rank 0.
        group: the processes that take part; None: all.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> mine = [None]
        >>> dist.scatter_object_list(mine, [f"part {r}" for r in range(dist.get_world_size())], src=0)
        >>> mine
        ['part 0']
        >>> dist.destroy_process_group()
    """
    if (found := joined(group, "scatter_object_list")) is None:
        return
    root = found.member(0 if src is None and group_src is None else src, group_src, "src")
    size = found.size()
    parts: list[Tensor] = []
    if found.rank() == root:
        objects = scatter_object_input_list or []
        if len(objects) != size:
            raise _wrong_length("scatter_object_list", objects, size)
        parts = [_packed(obj) for obj in objects]
    lengths = weft.tensor([part.numel() for part in parts] or [0] * size)
    broadcast(lengths, group=found, group_src=root)
    counts = [int(length) for length in lengths]
    own = weft.zeros(counts[found.rank()], dtype=weft.uint8)
    sent = weft.cat(parts) if parts else weft.zeros(0, dtype=weft.uint8)
    expected = [own.numel() if rank == root else 0 for rank in range(size)]
    all_to_all_single(own, sent, expected, counts if parts else [0] * size, found)
    scatter_object_output_list[0] = _unpacked(own)


def send_object_list(
    object_list: list[object],
    dst: int | None = None,
    group: Group = None,
    device: object = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send the objects of a list to a rank.

    Args:
        object_list: the objects: numbers, text, containers and tensors, as `weft.save` takes them.
        dst, group_dst: the receiver, by its rank in the world or number in the group; None in one: the other says it.
        group: the processes that take part; None: all.
        device: accepted, without effect: objects travel as bytes; None: the same.
        use_batch: accepted, without effect.
    """
    content = _packed(list(object_list))
    send(weft.tensor([content.numel()]), dst, group, group_dst=group_dst)
    send(content, dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[object],
    src: int | None = None,
    group: Group = None,
    device: object = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects into a list; the rank that they came from.

    Args:
        object_list: a list with as many places as objects come.
        src, group_src: the sender, by its rank in the world or its number in the group; None in both: anyone.
        group: the processes that take part; None: all.
        device: accepted, without effect: objects travel as bytes; None: the same.
        use_batch: accepted, without effect.
    """
    length = weft.tensor([0])
    source = recv(length, src, group, group_src=group_src)
    content = weft.zeros(int(length), dtype=weft.uint8)
    recv(content, source, group)
    _fill("recv_object_list", object_list, _unpacked(content))
    return source
