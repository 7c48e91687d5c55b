"""Agreement: before data moves, the ranks of a group compare what they call.

Each collective begins with one small all-gather of records of one size: a digest of what has to be equal on all ranks
(operation, reduction, element type, shape, root), and the rank's own data if these are few bytes, so that small
collectives need nothing more. Where digests differ, all ranks see it, exchange what they called and where, and raise
the same error.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from weft._typing import Array
from weft.distributed.errors import DistError
from weft.distributed.progress import Steps

if TYPE_CHECKING:
    from weft.distributed.group import ProcessGroup

DIGEST_BYTES, HEADER_BYTES, TEXT_BYTES = 16, 24, 512
MOST_INLINE_BYTES, MOST_TABLE_BYTES = 1024, 16384


class Call(NamedTuple):
    """A call of a collective: its name, what all ranks have to say alike, and the user's line."""

    name: str
    terms: str
    where: str

    def __str__(self) -> str:
        return f"{self.name} {self.terms}".rstrip()


def inline_bytes(size: int) -> int:
    """The most bytes of data that a record has room for, in a group of this size."""
    return min(MOST_INLINE_BYTES, MOST_TABLE_BYTES // size)


def agree(group: ProcessGroup, call: Call, data: Array | None = None) -> Steps[Array | None]:
    """Compare the call with those of the other ranks. Gives the data of all ranks, a row for each, if the data of none
    is too large for its record. Errors: DistError on all ranks where their calls differ."""
    fits = data is not None and data.nbytes <= inline_bytes(group.size())
    record = np.zeros(HEADER_BYTES + inline_bytes(group.size()), np.uint8)
    record[:DIGEST_BYTES] = bytearray(
        blake2b(str(call).encode(), digest_size=DIGEST_BYTES).digest()
    )
    record[DIGEST_BYTES] = fits
    if fits and data is not None:
        record[HEADER_BYTES : HEADER_BYTES + data.nbytes] = data
    table = np.empty((group.size(), record.nbytes), np.uint8)
    yield group.communicator.all_gather(record, table.reshape(-1))
    if (table[:, :DIGEST_BYTES] != record[:DIGEST_BYTES]).any():
        yield from disagree(group, call, "the ranks of the group call different collectives")
    if not table[:, DIGEST_BYTES].all():
        return None
    return table[:, HEADER_BYTES:]


def disagree(group: ProcessGroup, call: Call, problem: str) -> Steps[NoReturn]:
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
