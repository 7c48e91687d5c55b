"""Agreement: before data moves, the ranks of a group compare what they call.

Each collective begins with one small all-gather of records of one size: a digest of what has to be equal on all ranks
(operation, reduction, element type, shape, root), and the rank's own data if these fit. Up to a megabyte, and some of
all ranks, they are on their way beside the record, in a message to each rank, so that nobody waits twice: each wait may
take a time slice of whoever else runs. Several calls that go together are one record. Where digests differ, all ranks
see it, take what came beside them out of the way, exchange what they called and where, and raise the same error.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from weft._typing import Array
from weft.distributed.backends.protocol import BESIDE_TAG
from weft.distributed.errors import DistError
from weft.distributed.progress import Steps

if TYPE_CHECKING:
    from weft.distributed.group import ProcessGroup

DIGEST_BYTES, COUNT_AT, BESIDE_AT, HEADER_BYTES, TEXT_BYTES = 16, 20, 24, 28, 512
IN_RECORD, BESIDE = 1, 2  # where the data of a rank are
MOST_TABLE_BYTES = 1 << 14  # of the records of all ranks
MOST_BYTES_BESIDE = 1 << 20  # that a rank sends to each other one


class CollectiveCall(NamedTuple):
    """A call of a collective: its name, what all ranks have to say alike, the user's line, and the shapes of its
    operands, for profiles."""

    name: str
    terms: str
    where: str
    shapes: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {self.terms}".rstrip()


def goes_along(group: ProcessGroup, nbytes: int) -> bool:
    """True if this many bytes of each rank go with the agreement, in records or beside them."""
    return _place(group, nbytes) != 0


def _inline_bytes(group: ProcessGroup) -> int:
    """The most bytes of data that a record has room for."""
    size = group.size()
    return min(group.communicator.record_bytes, MOST_TABLE_BYTES // size) - HEADER_BYTES


def _place(group: ProcessGroup, nbytes: int) -> int:
    """The place of so many bytes of data: IN_RECORD, BESIDE, or 0 for those that are too many."""
    if nbytes <= _inline_bytes(group):
        return IN_RECORD
    is_received_soon = nbytes * (group.size() - 1) <= group.communicator.bytes_beside
    return BESIDE if nbytes <= MOST_BYTES_BESIDE and is_received_soon else 0


def agree(
    group: ProcessGroup,
    call: CollectiveCall,
    data: Array | None = None,
    senders: Sequence[int] = (),
) -> Steps[Array | None]:
    """Compare the call with those of the other ranks. Gives the data of all ranks, a row for each, where they have come
    with it: in the records, or beside these from the `senders`. Errors: DistError on all ranks where calls differ."""
    _, rows = yield from agree_on_several(group, [call], data, senders)
    return rows


def agree_on_several(
    group: ProcessGroup,
    calls: Sequence[CollectiveCall],
    data: Array | None,
    senders: Sequence[int] = (),
) -> Steps[tuple[int, Array | None]]:
    """`agree` on calls that go together. Ranks may have more or fewer of them: gives how many go together on all, and
    the data of all ranks where that is all of them. Where the calls differ they are compared one by one."""
    count = len(calls)
    while True:
        whole = data if count == len(calls) else None
        record = _record(group, calls[:count], whole, senders)
        table = np.empty((group.size(), record.nbytes), np.uint8)
        agreement = group.communicator.all_gather(record, table.reshape(-1))
        rows = _send_beside(group, record, whole)
        yield agreement
        if (table[:, :DIGEST_BYTES] == record[:DIGEST_BYTES]).all():
            return count, (yield from _rows(group, table, rows, whole, senders))
        yield from _take_away(group, table)
        counts = _numbers(table, COUNT_AT)
        fewest, most = int(counts.min()), int(counts.max())
        if most == 1:
            yield from disagree(
                group, calls[0], "the ranks of the group call different collectives"
            )
        count = fewest if fewest < most else 1


def _numbers(records: Array, at: int) -> Array:
    """A field of records."""
    return np.ascontiguousarray(records[..., at : at + 4]).view(np.uint32)


def _record(
    group: ProcessGroup,
    calls: Sequence[CollectiveCall],
    data: Array | None,
    senders: Sequence[int],
) -> Array:
    """The record of a rank: a digest of its calls, its data if they fit, else how many bytes it sends beside it."""
    record = np.zeros(HEADER_BYTES + _inline_bytes(group), np.uint8)
    text = "\n".join(map(str, calls))
    record[:DIGEST_BYTES] = bytearray(blake2b(text.encode(), digest_size=DIGEST_BYTES).digest())
    record[COUNT_AT:BESIDE_AT].view(np.uint32)[0] = len(calls)
    if data is None:
        return record
    record[DIGEST_BYTES] = place = _place(group, data.nbytes)
    if place == IN_RECORD:
        record[HEADER_BYTES : HEADER_BYTES + data.nbytes] = data
    elif place == BESIDE and group.rank() in senders and group.communicator.has_direct_messages:
        record[BESIDE_AT:HEADER_BYTES].view(np.uint32)[0] = data.nbytes
    return record


def _send_beside(group: ProcessGroup, record: Array, data: Array | None) -> Array | None:
    """Send data to all others if the record says so. They are a copy, in this rank's row of what is received: nobody
    waits until they have been fetched, and the program may write to its own."""
    if data is None or record[DIGEST_BYTES] != BESIDE:
        return None
    own = group.rank()
    rows = np.empty((group.size(), data.nbytes), np.uint8)
    if _numbers(record, BESIDE_AT)[0]:
        rows[own] = data
        group.outgoing += [
            group.communicator.send(rows[own], peer, BESIDE_TAG)
            for peer in range(group.size())
            if peer != own
        ]
    return rows


def _rows(
    group: ProcessGroup,
    table: Array,
    rows: Array | None,
    data: Array | None,
    senders: Sequence[int],
) -> Steps[Array | None]:
    """The data of all ranks, which agree."""
    places = table[:, DIGEST_BYTES]
    if (places == IN_RECORD).all():
        return table[:, HEADER_BYTES:]
    if rows is None or data is None or not (places == BESIDE).all():
        yield from _take_away(group, table)
        return None
    if not group.communicator.has_direct_messages:
        if len(senders) < group.size():
            return None
        yield group.communicator.all_gather(data, rows.reshape(-1))
        return rows
    if not senders:
        return None
    fetched = [
        group.communicator.receive(rows[peer], peer, BESIDE_TAG)
        for peer in senders
        if peer != group.rank()
    ]
    yield from fetched
    return rows


def _take_away(group: ProcessGroup, table: Array) -> Steps[None]:
    """Receive what other ranks have sent beside their records, for nothing."""
    for peer, nbytes in enumerate(_numbers(table, BESIDE_AT)[:, 0].tolist()):
        if nbytes and peer != group.rank():
            unread = np.empty(nbytes, np.uint8)
            yield group.communicator.receive(unread, peer, BESIDE_TAG)


def disagree(group: ProcessGroup, call: CollectiveCall, problem: str) -> Steps[NoReturn]:
    """Exchange what each rank called and where, and raise it. All ranks of the group come here, or none."""
    text = np.zeros(TEXT_BYTES, np.uint8)
    content = f"{call} at {call.where}".encode()[:TEXT_BYTES]
    text[: len(content)] = bytearray(content)
    texts = np.empty((group.size(), TEXT_BYTES), np.uint8)
    yield group.communicator.all_gather(text, texts.reshape(-1))
    said = [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in texts]
    raise DistError(
        f"{call.name}: {problem}",
        expected="the same operation, reduction, dtype and shape on all ranks",
        got="; ".join(f"rank {rank}: {one}" for rank, one in zip(group.ranks, said, strict=True)),
        fix="let all ranks call the same operations in the same order, with tensors of one shape",
        where=call.where,
    )
