"""Verification of replays (WEFT_REPLAY=verify): each replay is also done for real, and every node of both is compared.

It takes the nodes that a trace recorded and those that its client recorded anew, in order. They must be the same
operations with equal params, shapes, dtypes and residuals, of equal operands, with edges to equal targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.engine.devices.api import device_at
from weft.engine.ir.primitive import SCALAR_OP, VALUE_OP
from weft.errors import VerificationError

if TYPE_CHECKING:
    from weft.engine.ir.node import Node

FACTS = (
    "op", "params", "shape", "numel", "dtype", "operand_shapes", "residual_mask", "batch_seen", "may_fail", "code",
    "offset_in_code", "library_site", "grad_name",
)  # fmt: skip


def compare(
    client: str, replayed: list[Node], real: list[Node], apart_from: str = ""
) -> dict[Any, Any]:
    """The real node of each that was replayed. Errors: AssertionError where one is not like the other, apart from one
    fact."""
    pairs: dict[Any, Any] = {}
    if len(replayed) != len(real):
        raise mismatch(client, f"{len(replayed)} nodes", f"{len(real)} nodes")
    for number, (one, other) in enumerate(zip(replayed, real, strict=True)):
        for fact in FACTS:
            if fact != apart_from and not _equal(getattr(one, fact), getattr(other, fact)):
                raise mismatch(client, f"node {number}: {fact} of {one!r}", f"{other!r}")
        for name in ("inputs", "edges"):
            if not _lead_alike(getattr(one, name), getattr(other, name), pairs):
                raise mismatch(client, f"node {number}: {name} of {one!r}", f"{other!r}")
        if not is_pair(one.result, other.result, pairs):
            raise mismatch(client, f"node {number}: another whole for {one!r}", f"{other!r}")
        pairs[one] = other
    return pairs


def is_pair(one: Any, other: Any, pairs: dict[Any, Any]) -> bool:
    """True if two operands, or two edge targets, are the same: one object, a node and its counterpart, equal
    numbers."""
    if one is other or (one is not None and pairs.get(one) is other):
        return True
    kinds = [getattr(node, "op", None) for node in (one, other)]
    if kinds == [SCALAR_OP, SCALAR_OP]:
        return one.dtype is other.dtype and repr(one.params) == repr(other.params)
    if kinds != [VALUE_OP, VALUE_OP] or one.shape != other.shape or one.dtype is not other.dtype:
        return False
    return _bytes(one) == _bytes(other)  # constants that a function makes


def _bytes(node: Node) -> bytes:
    """The bytes of a value that is contiguous in memory."""
    memory = device_at(node.buffer.device).memory
    return memory.download(node.buffer, node.offset, node.numel * node.dtype.itemsize)


def _equal(one: object, other: object) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))


def _lead_alike(
    some: Sequence[object] | None, others: Sequence[object] | None, pairs: dict[Any, Any]
) -> bool:
    if some is None or others is None:
        return some is others
    return len(some) == len(others) and all(map(is_pair, some, others, [pairs] * len(some)))


def mismatch(client: str, replayed: str, real: str) -> VerificationError:
    """The error where replaying is not what it stands for."""
    return VerificationError(
        f"{client}: what was replayed is not what is recorded without",
        expected=real,
        got=replayed,
        fix="report it; until then, set weft.config.config.cache = False",
    )
