"""The backend of a group of one process: what it sends, it receives."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from weft._typing import Array
from weft.distributed.backends.protocol import Arrival, Done, Request


class LocalCommunicator:
    """A group of one process."""

    rank, size = 0, 1
    record_bytes, bytes_beside, has_direct_messages = 1 << 13, 1 << 20, False

    def __init__(self) -> None:
        self._messages: dict[int, deque[Array]] = {}

    def all_gather(
        self, source: Array, target: Array, counts: Sequence[int] | None = None
    ) -> Request:
        """Copy."""
        target[...] = source
        return Done()

    def all_to_all(
        self,
        source: Array,
        source_counts: Sequence[int],
        target: Array,
        target_counts: Sequence[int],
    ) -> Request:
        """Copy."""
        return self.all_gather(source, target)

    def broadcast(self, memory: Array, root: int) -> Request:
        """Nothing is to be sent."""
        return Done()

    def send(self, source: Array, peer: int, tag: int) -> Request:
        """Keep a copy until it is received."""
        self._messages.setdefault(tag, deque()).append(source.copy())
        return Done()

    def receive(self, target: Array, peer: int, tag: int) -> Request:
        """Copy the next message, when it is there."""
        return _Reception(self._messages.setdefault(tag, deque()), target)

    def arrival(self, peer: int, tag: int) -> Arrival | None:
        """The next message."""
        waiting = self._messages.get(tag)
        return Arrival(0, waiting[0].nbytes) if waiting else None

    def failed(self) -> Sequence[int]:
        """None."""
        return ()

    def subgroup(self, members: Sequence[int], key: int) -> LocalCommunicator | None:
        """A group of one again, or none."""
        return LocalCommunicator() if 0 in members else None

    def duplicate(self) -> LocalCommunicator:
        """A group of one."""
        return LocalCommunicator()

    def close(self, orderly: bool) -> None:
        """Nothing is open."""


class _Reception:
    """A message that is waited for."""

    def __init__(self, messages: deque[Array], target: Array) -> None:
        self._messages, self._target, self._done = messages, target, False

    def test(self) -> bool:
        """True when the message has come."""
        if not self._done and self._messages:
            content = self._messages.popleft()
            self._target[: content.nbytes] = content
            self._done = True
        return self._done
