"""The backend of Ray: an actor, the office, passes on bytes; large ones go through Ray's object store.

A transfer is a call of the office: each process leaves its parts, and gets what all have left for it once they have
come. A part of many bytes is put into the store of its own node, and only its reference goes to the office; the nodes
fetch it from each other. Processes meet at the office of their address, which any of them may open.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import numpy as np

from weft._typing import Array
from weft.distributed.backends.protocol import ANY_SOURCE, Arrival, Request
from weft.distributed.errors import DistBackendError

MOST_INLINE_BYTES = 1 << 16  # that go through the office itself
MOST_CALLS = 10_000  # that wait in an office at a time: a few for each process
MOST_FAREWELL_S = 10.0  # for the others to fetch what is in the store of this process

Part = Any  # bytes, or the reference of an array of bytes in the store
Turn = tuple[str, int]  # the name of a communicator, and the number of its transfer
Way = tuple[str, int, int]  # the name of a communicator, the receiver, the tag


class _Meeting:
    """A transfer of all members: what each has left, until each has got its answer."""

    def __init__(self, size: int) -> None:
        self.left: dict[int, Sequence[Part]] = {}
        self.complete = asyncio.Event()
        self.answers = size


class Office:
    """An actor where processes leave bytes for each other; its calls are coroutines of one thread."""

    def __init__(self) -> None:
        self._meetings: dict[Turn, _Meeting] = {}
        self._messages: dict[Way, dict[tuple[int, int], tuple[int, Part]]] = defaultdict(dict)
        self._came: dict[Way, asyncio.Condition] = defaultdict(asyncio.Condition)

    async def exchange(self, turn: Turn, rank: int, size: int, parts: Sequence[Part]) -> list[Part]:
        """Leave one part for each member, or one for all. Gives the parts that all left for this member."""
        meeting = self._meetings.setdefault(turn, _Meeting(size))
        meeting.left[rank] = parts
        if len(meeting.left) == size:
            meeting.complete.set()
        await meeting.complete.wait()
        meeting.answers -= 1
        if not meeting.answers:
            del self._meetings[turn]
        left = [meeting.left[member] for member in range(size)]
        return [parts[0] if len(parts) == 1 else parts[rank] for parts in left]

    async def post(
        self, way: Way, source: int, number: int, nbytes: int, parts: Sequence[Part]
    ) -> None:
        """Leave a message of one part: the `number`-th from this source on its way."""
        async with self._came[way]:
            self._messages[way][source, number] = (nbytes, parts[0])
            self._came[way].notify_all()

    async def collect(self, way: Way, source: int, number: int) -> list[Part]:
        """Wait for a message, and take it."""
        async with self._came[way]:
            await self._came[way].wait_for(lambda: (source, number) in self._messages[way])
            return [self._messages[way].pop((source, number))[1]]

    async def look(self, way: Way, source: int, received: Mapping[int, int]) -> tuple[Arrival, int]:
        """Wait for the next message on a way, from one source or from any; `received` counts those that have been
        received, by source. Gives its number, too."""

        def found() -> list[tuple[Arrival, int]]:
            return [
                (Arrival(sender, nbytes), number)
                for (sender, number), (nbytes, _) in self._messages[way].items()
                if source in (sender, ANY_SOURCE) and number == received.get(sender, 0)
            ]

        async with self._came[way]:
            await self._came[way].wait_for(found)
            return found()[0]


def _library() -> Any:
    """Ray, in a process that belongs to a cluster. Errors: DistBackendError where it is not installed."""
    try:
        import ray
    except ImportError:
        raise DistBackendError(
            "init_process_group: ray is not installed",
            expected="the package ray",
            got="no module ray",
            fix="pip install 'weft[ray]'",
        ) from None
    if not ray.is_initialized():
        ray.init()
    return ray


def open_office(address: str) -> _Office:
    """The office of an address, opened by whoever asks first. It closes when that process ends."""
    options = {"num_cpus": 0, "max_concurrency": MOST_CALLS, "name": address, "get_if_exists": True}
    office: _Office = _library().remote(Office).options(**options).remote()
    return office


class _Answer(Protocol):
    """The reference of an answer of an actor."""

    def future(self) -> Future[list[Part]]: ...


class _Office(Protocol):
    """The handle of an office; calls of its methods are `method.remote(...)`."""

    exchange: Any
    post: Any
    collect: Any
    look: Any


class _Transfer:
    """An answer of the office, then the large parts that it names, into the memory where they belong."""

    def __init__(self, answer: _Answer, targets: Sequence[Array]) -> None:
        self._answer: Future[list[Part]] = answer.future()
        self._targets = targets
        self._awaited: deque[tuple[Array, Part]] | None = None

    def test(self) -> bool:
        """True when all has come."""
        if not self._answer.done():
            return False
        import ray.exceptions

        try:
            return self._are_delivered()
        except ray.exceptions.RayError as error:
            raise ConnectionError(str(error).splitlines()[0]) from None

    def _are_delivered(self) -> bool:
        if self._awaited is None:
            parts = self._answer.result() or []
            kept = [
                (target, part if isinstance(part, bytes) else part.future())
                for target, part in zip(self._targets, parts, strict=True)
                if target.nbytes
            ]
            self._awaited = deque(kept)
        while self._awaited:
            target, part = self._awaited[0]
            if isinstance(part, Future):
                if not part.done():
                    return False
                part = part.result()
            content = np.frombuffer(part, np.uint8)
            target[: content.size] = content
            self._awaited.popleft()
        return True


class RayCommunicator:
    """Processes of a Ray cluster that meet at one office: by default that of which their name is the address."""

    record_bytes, bytes_beside, has_direct_messages = 1 << 13, 1 << 20, False

    def __init__(self, name: str, rank: int, size: int, office: _Office | None = None) -> None:
        self.rank, self.size = rank, size
        self._name = name
        self._ray = _library()
        self._office = open_office(name) if office is None else office
        self._transfers, self._duplicates = 0, 0
        self._posted: Counter[Way] = Counter()
        self._received: dict[Way, Counter[int]] = defaultdict(Counter)
        self._looks: dict[tuple[Way, int], Future[tuple[Arrival, int]]] = {}

    def _part(self, source: Array) -> Part:
        if source.nbytes <= MOST_INLINE_BYTES:
            return source.tobytes()
        return self._ray.put(source)

    def _exchange(self, parts: Sequence[Part], targets: Sequence[Array]) -> Request:
        turn = (self._name, self._transfers)
        self._transfers += 1
        answer = self._office.exchange.remote(turn, self.rank, self.size, parts)
        return _Transfer(answer, targets)

    def all_gather(
        self, source: Array, target: Array, counts: Sequence[int] | None = None
    ) -> Request:
        """One part for all."""
        counts = [source.nbytes] * self.size if counts is None else counts
        return self._exchange([self._part(source)], _split(target, counts))

    def all_to_all(
        self,
        source: Array,
        source_counts: Sequence[int],
        target: Array,
        target_counts: Sequence[int],
    ) -> Request:
        """A part for each."""
        parts = [self._part(part) for part in _split(source, source_counts)]
        return self._exchange(parts, _split(target, target_counts))

    def broadcast(self, memory: Array, root: int) -> Request:
        """The root has a part for all, the others have nothing."""
        nothing = memory[:0]
        mine = self._part(memory) if self.rank == root else b""
        is_receiver = self.rank != root
        targets = [
            memory if member == root and is_receiver else nothing for member in range(self.size)
        ]
        return self._exchange([mine], targets)

    def send(self, source: Array, peer: int, tag: int) -> Request:
        """Leave a copy at the office."""
        way = (self._name, peer, tag)
        number = self._posted[way]
        self._posted[way] += 1
        parts = [self._part(source)]  # in a list, where Ray leaves references as they are
        answer = self._office.post.remote(way, self.rank, number, source.nbytes, parts)
        return _Transfer(answer, [])

    def receive(self, target: Array, peer: int, tag: int) -> Request:
        """Wait at the office."""
        way = (self._name, self.rank, tag)
        number = self._received[way][peer]
        self._received[way][peer] += 1
        return _Transfer(self._office.collect.remote(way, peer, number), [target])

    def arrival(self, peer: int, tag: int) -> Arrival | None:
        """One question at a time is at the office, which answers when there is something."""
        way = (self._name, self.rank, tag)
        look = self._looks.get((way, peer))
        if look is None:
            question = self._office.look.remote(way, peer, dict(self._received[way]))
            self._looks[way, peer] = question.future()
            return None
        if not look.done():
            return None
        del self._looks[way, peer]
        arrival, number = look.result()
        return arrival if number == self._received[way][arrival.source] else None

    def failed(self) -> Sequence[int]:
        """None: Ray begins all again where a worker is gone."""
        return ()

    def subgroup(self, members: Sequence[int], key: int) -> RayCommunicator | None:
        """The same office, under a name of its own."""
        if self.rank not in members:
            return None
        rank = list(members).index(self.rank)
        name = f"{self._name}/{list(members)}.{key}"
        return RayCommunicator(name, rank, len(members), self._office)

    def duplicate(self) -> RayCommunicator:
        """The same office, under a name of its own."""
        self._duplicates += 1
        name = f"{self._name}+{self._duplicates}"
        return RayCommunicator(name, self.rank, self.size, self._office)

    def close(self, orderly: bool) -> None:
        """Wait a moment for the others: what they still fetch from the store of this process ends with it."""
        if orderly and self._ray.is_initialized():
            answer = self._office.exchange.remote((self._name, -1), self.rank, self.size, [b""])
            self._ray.wait([answer], timeout=MOST_FAREWELL_S)


def _split(memory: Array, counts: Sequence[int]) -> list[Array]:
    """Consecutive parts of some memory."""
    ends = np.cumsum(counts)
    return [memory[end - count : end] for count, end in zip(counts, ends, strict=True)]
