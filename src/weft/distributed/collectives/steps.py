"""Steps of collectives: how the bytes of arrays move between the ranks of a group once these agree, and are combined.

Each is a generator of the transfers that it waits for (`progress`). What is few bytes has come with the agreement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from weft._typing import Array
from weft.distributed.buffers import as_bytes
from weft.distributed.collectives.agreement import (
    CollectiveCall,
    agree,
    agree_on_several,
    disagree,
    goes_along,
)
from weft.distributed.collectives.reduction import ReduceOp, combination, combine
from weft.distributed.group import ProcessGroup
from weft.distributed.progress import Steps
from weft.engine.ir.dtype import DType


def gathered(group: ProcessGroup, call: CollectiveCall, data: Array, target: Array) -> Steps[None]:
    """Put the equally many bytes of all ranks into `target`."""
    yield from several_gathered(group, [call], [data], [target])


def in_lots(
    group: ProcessGroup,
    calls: Sequence[CollectiveCall],
    data: Sequence[Array],
    join: Callable[[Sequence[Array]], Array],
    move: Callable[[Sequence[Array], int, Array | None], Steps[None]],
) -> Steps[None]:
    """Do several calls, each time with as many as all ranks do together. `join` makes one array of several operands;
    `move` takes the operands, how many were before them, and the joined ones of all ranks if they are few."""
    done = 0
    while done < len(calls):
        left = data[done:]
        fits = goes_along(group, sum(array.nbytes for array in left))
        along = as_bytes(join(left)) if fits else None
        everybody = range(group.size())
        count, rows = yield from agree_on_several(group, calls[done:], along, everybody)
        yield from move(left[:count], done, rows)
        done += count


def _joined(some: Sequence[Array]) -> Array:
    """Arrays one behind the other."""
    return some[0] if len(some) == 1 else np.concatenate(some)


def several_gathered(
    group: ProcessGroup,
    calls: Sequence[CollectiveCall],
    data: Sequence[Array],
    targets: Sequence[Array],
) -> Steps[None]:
    """Put the parts of all ranks of several arrays into targets, with those that other ranks do together."""
    size = group.size()

    def move(some: Sequence[Array], done: int, rows: Array | None) -> Steps[None]:
        joined = _joined(some)
        if rows is None and len(some) == 1:
            yield group.communicator.all_gather(as_bytes(joined), as_bytes(targets[done]))
            return
        if rows is None:
            rows = np.empty((size, joined.nbytes), np.uint8)
            yield group.communicator.all_gather(as_bytes(joined), rows.reshape(-1))
        _deal(rows[:, : joined.nbytes].view(joined.dtype), targets[done : done + len(some)])

    yield from in_lots(group, calls, data, _joined, move)


def _deal(rows: Array, targets: Sequence[Array]) -> None:
    """Put parts of each of some rows into targets, each of which gets as much of all rows."""
    first = 0
    for target in targets:
        width = target.size // len(rows)
        target.reshape(len(rows), width)[...] = rows[:, first : first + width]
        first += width


def sent_from(group: ProcessGroup, call: CollectiveCall, memory: Array, root: int) -> Steps[None]:
    """Overwrite the bytes of all ranks with the root's."""
    rows = yield from agree(group, call, memory, [root])
    if rows is None:
        yield group.communicator.broadcast(memory, root)
    elif group.rank() != root:
        memory[...] = rows[root, : memory.nbytes]


def collected(
    group: ProcessGroup, call: CollectiveCall, data: Array, target: Array, root: int
) -> Steps[None]:
    """Put the bytes of all ranks into the root's `target`."""
    rows = yield from agree(group, call, data)
    if rows is None:
        counts, expected = [0] * group.size(), [0] * group.size()
        counts[root] = data.nbytes
        if group.rank() == root:
            expected = [data.nbytes] * group.size()
        yield group.communicator.all_to_all(data, counts, target, expected)
    elif group.rank() == root:
        target.reshape(group.size(), data.nbytes)[...] = rows[:, : data.nbytes]


def spread(
    group: ProcessGroup, call: CollectiveCall, data: Array, target: Array, root: int
) -> Steps[None]:
    """Put each rank's part of the root's bytes into its `target`."""
    size, own = group.size(), group.rank()
    rows = yield from agree(group, call, data if own == root else target[:0])
    if rows is None or target.nbytes * size > rows.shape[1]:
        counts = [target.nbytes if own == root else 0] * size
        expected = [target.nbytes if rank == root else 0 for rank in range(size)]
        yield group.communicator.all_to_all(data, counts, target, expected)
    else:
        target[...] = rows[root, own * target.nbytes : (own + 1) * target.nbytes]


def exchanged(
    group: ProcessGroup,
    call: CollectiveCall,
    data: Array,
    counts: Sequence[int],
    target: Array,
    expected: Sequence[int],
) -> Steps[None]:
    """Send parts of bytes to all ranks and receive theirs; ranks compare how many they send and expect."""
    size = group.size()
    said = as_bytes(np.array([*counts, *expected], np.int64))
    table = np.empty((size, said.nbytes), np.uint8)
    yield from gathered(group, call, said, table.reshape(-1))
    sent, wanted = table.view(np.int64).reshape(size, 2, size).transpose(1, 0, 2)
    if (sent != wanted.T).any():
        terms = f"{call.terms} that sends {list(counts)} and expects {list(expected)} bytes"
        problem = "a rank sends another number of bytes than the receiver expects"
        yield from disagree(group, call._replace(terms=terms), problem)
    yield group.communicator.all_to_all(data, counts, target, expected)


class RankReduction:
    """Steps that combine equally many elements of all ranks. Each rank combines its part, in the order of ranks."""

    def __init__(
        self, group: ProcessGroup, call: CollectiveCall, op: ReduceOp, dtype: DType
    ) -> None:
        self.group, self.call, self.op, self.dtype = group, call, op, dtype
        self._combination = combination(op, dtype, call.name.removesuffix("_coalesced"), call.where)

    def _combined(self, rows: Array, first: int, count: int, kind: np.dtype[np.generic]) -> Array:
        """The combination of some elements of the rows of bytes of all ranks."""
        start, end = first * kind.itemsize, (first + count) * kind.itemsize
        parts = [np.frombuffer(row[start:end], kind) for row in rows]
        return combine(self._combination, self.op, self.dtype, parts)

    def _parts(self, count: int) -> list[int]:
        """The number of elements that each rank combines."""
        size = self.group.size()
        return [count * (rank + 1) // size - count * rank // size for rank in range(size)]

    def _exchange(self, data: Array, parts: Sequence[int]) -> Steps[Array]:
        """This rank's part, combined."""
        own, width = parts[self.group.rank()], data.itemsize
        table = np.empty((self.group.size(), own), data.dtype)
        counts = [part * width for part in parts]
        expected = [own * width] * self.group.size()
        memory = as_bytes(table.reshape(-1))
        yield self.group.communicator.all_to_all(as_bytes(data), counts, memory, expected)
        return combine(self._combination, self.op, self.dtype, list(table))

    def to_all(self, data: Array, target: Array) -> Steps[None]:
        """Put the combination into every rank's `target`."""
        yield from self.several_to_all([self.call], [data], target)

    def several_to_all(
        self, calls: Sequence[CollectiveCall], data: Sequence[Array], target: Array
    ) -> Steps[None]:
        """`to_all` of several arrays, one behind the other in `target`, with those that other ranks do together."""

        starts = list(accumulate((array.size for array in data), initial=0))

        def move(some: Sequence[Array], done: int, rows: Array | None) -> Steps[None]:
            joined = _joined(some)
            part = target[starts[done] : starts[done] + joined.size]
            if rows is None:
                yield from self._agreed_to_all(joined, part)
            else:
                part[...] = self._combined(rows, 0, joined.size, joined.dtype)

        yield from in_lots(self.group, calls, data, _joined, move)

    def several_to_parts(
        self, calls: Sequence[CollectiveCall], data: Sequence[Array], targets: Sequence[Array]
    ) -> Steps[None]:
        """`to_parts` of several arrays, with those that other ranks do together."""
        size, own = self.group.size(), self.group.rank()

        def join(some: Sequence[Array]) -> Array:
            rows = [array.reshape(size, array.size // size) for array in some]
            return rows[0].reshape(-1) if len(rows) == 1 else np.hstack(rows).reshape(-1)

        def move(some: Sequence[Array], done: int, rows: Array | None) -> Steps[None]:
            joined = join(some)
            count = joined.size // size
            if rows is None:
                part = yield from self._exchange(joined, [count] * size)
            else:
                part = self._combined(rows, own * count, count, joined.dtype)
            _deal(part.reshape(1, count), targets[done : done + len(some)])

        yield from in_lots(self.group, calls, data, join, move)

    def _agreed_to_all(self, data: Array, target: Array) -> Steps[None]:
        """`to_all` after an agreement: exchange parts, combine them, and exchange what that gives."""
        parts = self._parts(data.size)
        own = yield from self._exchange(data, parts)
        counts = [part * data.itemsize for part in parts]
        yield self.group.communicator.all_gather(as_bytes(own), as_bytes(target), counts)

    def to_one(self, data: Array, target: Array, root: int) -> Steps[None]:
        """Put the combination into the root's `target`."""
        rows = yield from agree(self.group, self.call, as_bytes(data))
        is_root = self.group.rank() == root
        if rows is not None:
            if is_root:
                target[...] = self._combined(rows, 0, data.size, data.dtype)
            return
        parts = self._parts(data.size)
        own = yield from self._exchange(data, parts)
        counts = [own.nbytes if rank == root else 0 for rank in range(self.group.size())]
        expected = [part * data.itemsize if is_root else 0 for part in parts]
        yield self.group.communicator.all_to_all(as_bytes(own), counts, as_bytes(target), expected)

    def to_parts(self, data: Array, target: Array) -> Steps[None]:
        """Put each rank's part of the combination into its `target`."""
        yield from self.several_to_parts([self.call], [data], [target])


def ready(group: ProcessGroup, call: CollectiveCall) -> Steps[None]:
    """Only agree."""
    yield from agree(group, call)
