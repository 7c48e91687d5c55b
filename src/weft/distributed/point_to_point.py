"""Messages between two ranks: send and recv, and several at once.

A message is a record that says what it holds (the number of elements, their dtype, the sender's line) with the data if
they are few, and else the data after it. What does not fit the receiver's tensor is refused on its side, with both
lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from weft._typing import Array
from weft.distributed.backends.protocol import ANY_SOURCE, FIRST_TAG
from weft.distributed.buffers import Received, as_bytes, elements, need_tensor
from weft.distributed.collectives.agreement import TEXT_BYTES, CollectiveCall
from weft.distributed.collectives.operations import call_of
from weft.distributed.errors import DistError
from weft.distributed.group import Group, ProcessGroup
from weft.distributed.progress import Steps
from weft.distributed.work import Work
from weft.distributed.world import joined, resolve
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError

MOST_INLINE_BYTES = 8192  # of data, that go in one message with what they are
RECORD_BYTES = TEXT_BYTES + MOST_INLINE_BYTES


def contents(tensor: Tensor) -> str:
    """`6 elements of float32`: what sender and receiver have to agree on; the shape is each one's own."""
    return f"{tensor.numel()} elements of {tensor.dtype.name}"


class _Awaited:
    """A message that has not arrived yet: a request that is done when it has."""

    def __init__(self, group: ProcessGroup, peer: int, tag: int) -> None:
        self._arrival = lambda: group.communicator.arrival(peer, tag)
        self.source = -1

    def test(self) -> bool:
        """True when it has arrived."""
        found = self._arrival()
        if found is not None:
            self.source = found.source
        return found is not None


def _sent(
    group: ProcessGroup, call: CollectiveCall, data: Array, peer: int, tag: int
) -> Steps[None]:
    record = np.zeros(
        TEXT_BYTES + (data.nbytes if data.nbytes <= MOST_INLINE_BYTES else 0), np.uint8
    )
    content = f"{call.terms}\n{call.where}".encode()[:TEXT_BYTES]
    record[: len(content)] = bytearray(content)
    if data.nbytes <= MOST_INLINE_BYTES:
        record[TEXT_BYTES:] = data
        yield group.communicator.send(record, peer, tag)
        return
    head = group.communicator.send(record, peer, tag)
    yield group.communicator.send(data, peer, tag)
    yield head


def _received(
    group: ProcessGroup, call: CollectiveCall, target: Array, peer: int, tag: int
) -> Steps[int]:
    """Receive into `target`; the rank in the world that it came from. Errors: DistError for another message."""
    awaited = _Awaited(group, peer, tag)
    yield awaited
    record = np.empty(RECORD_BYTES, np.uint8)
    yield group.communicator.receive(record, awaited.source, tag)
    text = record[:TEXT_BYTES].tobytes().rstrip(b"\0").decode(errors="replace")
    terms, _, line = text.partition("\n")
    source = group.ranks[awaited.source]
    if terms != call.terms:
        raise DistError(
            f"{call.name}: the message of rank {source} does not fit",
            expected=f"{call.terms}, as it is received",
            got=f"{terms}, sent by rank {source} at {line}",
            fix="send and receive tensors of one dtype and as many elements, in the same order",
            where=call.where,
        )
    if target.nbytes <= MOST_INLINE_BYTES:
        target[...] = record[TEXT_BYTES : TEXT_BYTES + target.nbytes]
    else:
        yield group.communicator.receive(target, awaited.source, tag)
    return source


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Begin to send a tensor to a rank.

    Args:
        tensor: what is sent; it is not to be changed before the message is on its way.
        dst, group_dst: the receiver, by its rank in the world or number in the group; None in one: the other says it.
        group: the processes that take part; None: all.
        tag: a number: messages meet receivers of the same tag only.
    """
    return _send("isend", tensor, dst, group, tag, group_dst)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to a rank, and wait until it is on its way.

    Args:
        tensor: what is sent.
        dst, group_dst: the receiver, by its rank in the world or number in the group; None in one: the other says it.
        group: the processes that take part; None: all.
        tag: a number: messages meet receivers of the same tag only.
    """
    work = _send("send", tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def _send(
    name: str, tensor: Tensor, dst: int | None, group: Group, tag: int, group_dst: int | None
) -> Work | None:
    need_tensor(name, tensor)
    if (found := joined(group, name)) is None:
        return None
    peer = found.member(dst, group_dst, "dst")
    _need_other(name, found, peer)
    call = call_of(name, contents(tensor), tensor)
    steps = _sent(found, call, as_bytes(elements(tensor)), peer, _own_tag(name, tag))
    return found.message(call, steps, peer, tag, lambda _: tensor)


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Begin to receive a tensor from a rank, or from whichever sends first.

    Args:
        tensor: where what comes is written: of the sender's dtype, and of as many elements.
        src, group_src: the sender, by its rank in the world or its number in the group; None in both: anyone.
        group: the processes that take part; None: all.
        tag: a number: messages meet receivers of the same tag only.
    """
    return _recv("irecv", tensor, src, group, tag, group_src)


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor from a rank, or from whichever sends first; the rank that it came from, -1 outside the group.

    Args:
        tensor: where what comes is written: of the sender's dtype, and of as many elements.
        src, group_src: the sender, by its rank in the world or its number in the group; None in both: anyone.
        group: the processes that take part; None: all.
        tag: a number: messages meet receivers of the same tag only.
    """
    work = _recv("recv", tensor, src, group, tag, group_src)
    return -1 if work is None else work.source_rank()


def _recv(
    name: str, tensor: Tensor, src: int | None, group: Group, tag: int, group_src: int | None
) -> Work | None:
    need_tensor(name, tensor)
    if (found := joined(group, name)) is None:
        return None
    anyone = src is None and group_src is None
    peer = None if anyone else found.member(src, group_src, "src")
    if peer is not None:
        _need_other(name, found, peer)
    call = call_of(name, contents(tensor), tensor)
    received = Received(tensor.dtype, tensor.numel())
    target = as_bytes(received.elements)
    sender = ANY_SOURCE if peer is None else peer
    steps = _received(found, call, target, sender, _own_tag(name, tag))

    def deliver(source: int) -> int:
        received.fill(tensor)
        return source

    return found.message(call, steps, peer, tag, deliver)


def _own_tag(name: str, tag: int) -> int:
    """The tag by which a backend knows a program's. Errors: ValueError for a negative one."""
    if tag >= 0:
        return FIRST_TAG + tag
    raise ArgumentError(
        f"{name}: Tag must be nonnegative",
        expected="tag >= 0",
        got=str(tag),
        fix="number messages from 0",
    )


def _need_other(name: str, group: ProcessGroup, peer: int) -> None:
    if peer == group.rank():
        raise ArgumentError(
            f"{name}: Invalid rank: a process cannot send to itself or receive from itself",
            expected=f"another rank than {group.ranks[peer]}",
            got=str(group.ranks[peer]),
            fix="copy the tensor",
        )


class P2POp:
    """A message that `batch_isend_irecv` is to begin: `isend` or `irecv`, a tensor, and the other rank.

    Args:
        op: `isend` or `irecv`.
        tensor: what is sent, or where what comes is written.
        peer: the other rank, in the world; None: `group_peer` says which.
        group: the processes that take part; None: all.
        tag: a number: messages meet receivers of the same tag only.
        group_peer: the other rank by its number in the group; None: `peer` says which.
    """

    def __init__(
        self,
        op: Callable[..., Work | None],
        tensor: Tensor,
        peer: int | None = None,
        group: Group = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ArgumentError(
                "Invalid ``op``: expected `isend` or `irecv` of weft.distributed",
                expected="isend or irecv",
                got=repr(op),
                fix="pass weft.distributed.isend or irecv",
            )
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        found = resolve(group)
        self.group_peer = found.member(peer, group_peer, "peer")
        self.peer = found.ranks[self.group_peer]


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begin several messages, and give their handles.

    Args:
        p2p_op_list: the messages, which are begun in this order.

    Errors: ValueError for a list of anything else, before any is begun.
    """
    wrong = [op for op in p2p_op_list if not isinstance(op, P2POp)]
    if wrong:
        raise ArgumentError(
            "Invalid ``p2p_op_list``: each op is expected to be of type `P2POp`",
            expected="a list of P2POp",
            got=f"a {type(wrong[0]).__name__} in it",
            fix="make each by P2POp(isend, tensor, peer)",
        )
    begun = [op.op(op.tensor, op.peer, op.group, op.tag) for op in p2p_op_list]
    return [work for work in begun if work is not None]
