"""Agreement: before data moves, the ranks of a group compare what they call.

Each collective begins with one small all-gather of records of one size: a digest of what has to be equal on all ranks
(operation, reduction, element type, shape, root), and the rank's own data if these are few bytes, so that small
collectives need nothing more. Several that go together are one record. Where digests differ, all ranks see it, exchange
what they called and where, and raise the same error.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from weft._typing import Array
from weft.distributed.errors import DistError
from weft.distributed.progress import Steps

if TYPE_CHECKING:
    from weft.distributed.group import ProcessGroup

DIGEST_BYTES, COUNT_AT, HEADER_BYTES, TEXT_BYTES = 16, 20, 24, 512
MOST_INLINE_BYTES, MOST_TABLE_BYTES = 8192, 16384


class CollectiveCall(NamedTuple):
    """A call of a collective: its name, what all ranks have to say alike, the user's line, and the shapes of its
    operands, for profiles."""

    name: str
    terms: str
    where: str
    shapes: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {self.terms}".rstrip()


def inline_bytes(size: int) -> int:
    """The most bytes of data that a record has room for, in a group of this size."""
    return min(MOST_INLINE_BYTES, MOST_TABLE_BYTES // size)


def agree(
    group: ProcessGroup, call: CollectiveCall, data: Array | None = None
) -> Steps[Array | None]:
    """Compare the call with those of the other ranks. Gives the data of all ranks, a row for each, if the data of none
    is too large for its record. Errors: DistError on all ranks where their calls differ."""
    _, rows = yield from agree_on_several(group, [call], data)
    return rows


def agree_on_several(
    group: ProcessGroup, calls: Sequence[CollectiveCall], data: Array | None
) -> Steps[tuple[int, Array | None]]:
    """`agree` on calls that go together. Ranks may have more or fewer of them: gives how many go together on all, and
    the data of all ranks where that is all of them. Where the calls differ they are compared one by one."""
    count = len(calls)
    while True:
        record = _record(group, calls[:count], data if count == len(calls) else None)
        table = np.empty((group.size(), record.nbytes), np.uint8)
        yield group.communicator.all_gather(record, table.reshape(-1))
        if (table[:, :DIGEST_BYTES] == record[:DIGEST_BYTES]).all():
            return count, table[:, HEADER_BYTES:] if table[:, DIGEST_BYTES].all() else None
        counts = np.ascontiguousarray(table[:, COUNT_AT:HEADER_BYTES]).view(np.uint32)
        fewest, most = int(counts.min()), int(counts.max())
        if most == 1:
            yield from disagree(
                group, calls[0], "the ranks of the group call different collectives"
            )
        count = fewest if fewest < most else 1


def _record(group: ProcessGroup, calls: Sequence[CollectiveCall], data: Array | None) -> Array:
    """The record of a rank: a digest of its calls, and its data if they fit."""
    room = inline_bytes(group.size())
    record = np.zeros(HEADER_BYTES + room, np.uint8)
    text = "\n".join(map(str, calls))
    record[:DIGEST_BYTES] = bytearray(blake2b(text.encode(), digest_size=DIGEST_BYTES).digest())
    record[COUNT_AT:HEADER_BYTES].view(np.uint32)[0] = len(calls)
    if data is not None and data.nbytes <= room:
        record[DIGEST_BYTES] = True
        record[HEADER_BYTES : HEADER_BYTES + data.nbytes] = data
    return record


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
