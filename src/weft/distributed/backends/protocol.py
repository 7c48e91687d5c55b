"""The protocol of a backend: non-blocking transfers of bytes among the members of a group.

A backend is a class with the methods of `Communicator`; all transfers answer with a `Request` and never block. Memory
is a flat array of bytes that the caller keeps alive until the request is done. Members are numbered 0 .. size - 1. The
transfers of all members begin in the same order (`agreement` sees to it).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from weft._typing import Array

ANY_SOURCE = -1
BESIDE_TAG, FIRST_TAG = 0, 1  # of messages of collectives, and the first of programs' own


class Request(Protocol):
    """A transfer that has begun."""

    def test(self) -> bool:
        """Let it go on; True when it is done. Errors: ConnectionError for a transfer that has failed."""


class Done:
    """A transfer that was done at once."""

    def test(self) -> bool:
        """True: nothing is left."""
        return True


class Arrival(NamedTuple):
    """A message that has arrived and has not been received."""

    source: int
    nbytes: int


class Communicator(Protocol):
    """A group of processes that can exchange bytes."""

    rank: int
    size: int
    record_bytes: int  # of each member, that all_gather carries as fast as fewer
    bytes_beside: int  # from all others, that are worth less than an exchange more
    has_direct_messages: bool  # a message goes from memory to memory, by nobody else

    def all_gather(
        self, source: Array, target: Array, counts: Sequence[int] | None = None
    ) -> Request:
        """Put the bytes of all members into `target`, in the order of ranks: equally many, or those of `counts`."""

    def all_to_all(
        self,
        source: Array,
        source_counts: Sequence[int],
        target: Array,
        target_counts: Sequence[int],
    ) -> Request:
        """Send consecutive parts of `source` to the members, and put what comes from each into `target`, in the order
        of ranks. Counts are bytes and may be 0."""

    def broadcast(self, memory: Array, root: int) -> Request:
        """Overwrite the memory of all members with the root's."""

    def send(self, source: Array, peer: int, tag: int) -> Request:
        """Send a message; messages of one tag to one peer arrive in order."""

    def receive(self, target: Array, peer: int, tag: int) -> Request:
        """Receive the next message with this tag, which is no longer than `target`."""

    def arrival(self, peer: int, tag: int) -> Arrival | None:
        """The next message with this tag from a peer, or from anyone (`ANY_SOURCE`), or None if there is none."""

    def failed(self) -> Sequence[int]:
        """Members whose processes have ended, as far as the backend itself knows."""

    def subgroup(self, members: Sequence[int], key: int) -> Communicator | None:
        """A communicator of some members, in that order; None for the others. Only members need to call it; `key` tells
        apart calls that overlap in time."""

    def duplicate(self) -> Communicator:
        """A communicator of the same members, whose messages do not meet those of this one. All members call it."""

    def close(self, orderly: bool) -> None:
        """End the backend in this process: together with the others (`orderly`), or without waiting for them."""
