"""Peers: the other processes of the world, and what is to be said of an operation that waits for them.

Processes of one machine see each other's state in `/proc`; what a process knows of its own end, it says in a note: a
small message of plain data, which those that wait read. An operation fails when a rank that it waits for is gone, when
another rank has given it up, and when its time is over; then those that wait are asked where they are, and the ranks
that do not answer are named.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.distributed.backends.protocol import ANY_SOURCE, Communicator, Request
from weft.distributed.errors import DistBackendError
from weft.distributed.pauses import Pause
from weft.distributed.progress import Operation

NOTE_TAG = 1
MONITORED = (
    "monitored_barrier"  # the collective whose error has PyTorch's words for ranks that do not come
)
NOTE_BYTES, IDENTITY_BYTES = 2048, 256
LAST_WORDS_S = 0.15  # from when a process is gone until what waits for it fails: its last messages may be on the way
ANSWER_S = 0.5  # from the question where a rank is until it counts as missing
CHECK_EVERY_S = 0.05
STOPPED_S = 3.0  # for which a process of this machine is seen stopped until what waits for it fails
BLIND_S = 1.0  # between two looks, of a process that was stopped itself


Note = dict[str, Any]
Places = list[list[Any]]  # where a rank waits: group, number of the collective, text


class ProcessIdentity(NamedTuple):
    """A process, as those of the same machine find it."""

    machine: str
    pid: int
    started: str


def own_identity() -> ProcessIdentity:
    """This process. Two that see other processes, as in containers, count as on different machines."""
    machine = socket.gethostname()
    with contextlib.suppress(OSError):
        machine += Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        machine += os.readlink("/proc/self/ns/pid")
    return ProcessIdentity(machine, os.getpid(), _state(os.getpid())[1])


def _state(pid: int) -> tuple[str, str]:
    """The state letter and the start time of a process; empty where there is none, or no `/proc`."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]


def exchange_identities(communicator: Communicator) -> list[ProcessIdentity]:
    """The identities of all ranks."""
    mine = np.zeros(IDENTITY_BYTES, np.uint8)
    content = json.dumps(own_identity()).encode()
    mine[: len(content)] = bytearray(content)
    table = np.empty((communicator.size, IDENTITY_BYTES), np.uint8)
    request, pause = communicator.all_gather(mine, table.reshape(-1)), Pause()
    while not request.test():
        pause.rest(False)
    return [ProcessIdentity(*json.loads(row.tobytes().rstrip(b"\0"))) for row in table]


class Gone(NamedTuple):
    """A rank that takes no more part: why, when that was learned, and how many collectives of each group it did."""

    reason: str
    since: float
    finished: dict[str, int]
    is_told: bool  # it said so itself; else it was found


class Peers:
    """The other ranks of the world, as far as this one knows."""

    def __init__(self, control: Communicator) -> None:
        self._control = control
        self._identities = exchange_identities(control)
        self._own = self._identities[control.rank]
        self._checked = 0.0
        self._gone: dict[int, Gone] = {}
        self._stopped: dict[int, tuple[float, float]] = {}  # since when, and when seen last
        self._asked: dict[int, float] = {}  # by operation, since when its peers have been asked
        self._answers: dict[int, Places] = {}
        self._sent: list[Request] = []
        self.broken: dict[str, str] = {}  # by group, why it cannot be used any more

    # -- notes ---------------------------------------------------------------------------------------------------

    def tell(self, ranks: Iterable[int], kind: str, **content: object) -> None:
        """Send a note to some ranks; those that are gone do not get it."""
        text = json.dumps({"kind": kind, **content}).encode()
        if len(text) > NOTE_BYTES:
            text = json.dumps({"kind": kind, **_shortened(content)}).encode()[:NOTE_BYTES]
        note = np.frombuffer(bytearray(text), np.uint8)
        for rank in set(ranks) - {self._control.rank} - set(self._gone):
            with contextlib.suppress(Exception):  # one that cannot be reached will be found gone
                self._sent.append(self._control.send(note, rank, NOTE_TAG))

    def tell_all(self, kind: str, **content: object) -> None:
        """Send a note to all other ranks, and wait a moment until it is on its way."""
        self.tell(range(self._control.size), kind, **content)
        end, pause = time.monotonic() + LAST_WORDS_S, Pause()
        while self._sent and time.monotonic() < end:
            self._forget_sent()
            pause.rest(False)

    def _forget_sent(self) -> None:
        with contextlib.suppress(ConnectionError):
            self._sent = [request for request in self._sent if not request.test()]

    def _read_notes(self, waiting: list[Operation]) -> None:
        self._forget_sent()
        while (arrival := self._control.arrival(ANY_SOURCE, NOTE_TAG)) is not None:
            note, pause = np.empty(arrival.nbytes, np.uint8), Pause()
            request = self._control.receive(note, arrival.source, NOTE_TAG)
            while not request.test():
                pause.rest(False)
            self._take(arrival.source, json.loads(note.tobytes()), waiting)

    def _take(self, source: int, note: Note, waiting: list[Operation]) -> None:
        if note["kind"] == "gone":
            self._gone[source] = Gone(
                note["reason"], time.monotonic(), note.get("finished", {}), is_told=True
            )
        elif note["kind"] == "broken":
            self.broken.setdefault(note["group"], note["reason"])
        elif note["kind"] == "where":
            places = [[*(op.key or ("", 0)), f"{op.what} at {op.where}"] for op in waiting]
            self.tell([source], "here", places=places)
        else:
            self._answers[source] = note["places"]

    # -- judging -------------------------------------------------------------------------------------------------

    def look(self, waiting: list[Operation]) -> None:
        """Fail operations that wait in vain."""
        self._read_notes(waiting)
        self._check_processes()
        for operation in waiting:
            self._judge(operation)

    def _check_processes(self) -> None:
        now = time.monotonic()
        if now - self._checked < CHECK_EVERY_S:
            return
        self._checked = now
        for rank, other in enumerate(self._identities):
            seen = other.machine == self._own.machine and other.started and rank not in self._gone
            if not seen or rank == self._control.rank:
                continue
            self._see_stopped(rank, now)
            if self.is_dead(rank):
                reason = (
                    f"rank {rank} is gone: process {other.pid} was killed, or ended without a word"
                )
                self._gone[rank] = Gone(reason, now, {}, is_told=False)
        for rank in set(self._control.failed()) - set(self._gone):
            other = self._identities[rank]
            reason = f"rank {rank} is gone: process {other.pid} was killed, or cannot be reached"
            self._gone[rank] = Gone(reason, now, {}, is_told=False)

    def _see_stopped(self, rank: int, now: float) -> None:
        """Keep since when a process has been stopped by a signal. Where this one did not look for a while, it was
        stopped as well, as by Ctrl-Z, and the time begins anew."""
        if _state(self._identities[rank].pid)[0] != "T":
            self._stopped.pop(rank, None)
            return
        since, last = self._stopped.get(rank, (now, now))
        self._stopped[rank] = (since if now - last < BLIND_S else now, now)

    def _is_stopped(self, rank: int) -> bool:
        """True if a process has been stopped for so long that nobody waits for it any more."""
        since, last = self._stopped.get(rank, (0.0, 0.0))
        return last - since > STOPPED_S

    def is_dead(self, rank: int) -> bool:
        """True if a process of this machine has ended."""
        other = self._identities[rank]
        state, started = _state(other.pid)
        return state in ("", "Z", "X") or started != other.started

    def dead(self) -> list[int]:
        """The ranks of this machine whose processes have ended."""
        here = [r for r, other in enumerate(self._identities) if other.machine == self._own.machine]
        return [rank for rank in here if self._own.started and self.is_dead(rank)]

    def loss(self) -> str:
        """Why ranks take no more part: what one said of itself, else what was found; empty where all are at work.
        Waits a moment, as last words may be on the way."""
        end, pause = time.monotonic() + ANSWER_S, Pause()
        while time.monotonic() < end:
            self._read_notes([])
            self._check_processes()
            now, gone = time.monotonic(), self._gone.values()
            if any(one.is_told or now - one.since > LAST_WORDS_S for one in gone):
                break
            pause.rest(False)
        told_first = sorted(self._gone.values(), key=lambda one: not one.is_told)
        return told_first[0].reason if told_first else ""

    def _judge(self, operation: Operation) -> None:
        now, key = time.monotonic(), operation.key
        if key is not None and key[0] in self.broken:
            self._fail(operation, self.broken[key[0]])
        for rank in operation.ranks:
            gone = self._gone.get(rank)
            has_done = (
                gone is not None and key is not None and gone.finished.get(key[0], 0) > key[1]
            )
            if gone is not None and not has_done and now - gone.since > LAST_WORDS_S:
                self._fail(operation, gone.reason)
            elif gone is None and self._is_stopped(rank):
                pid = self._identities[rank].pid
                self._give_up(operation, f"rank {rank} is stopped (process {pid})")
        if operation.lost and now - operation.lost_since > ANSWER_S:
            self._fail(operation, f"the connection to another rank is lost: {operation.lost}")
        if not operation.done and now > operation.deadline:
            self._expire(operation, now)

    def _fail(self, operation: Operation, reason: str) -> None:
        if operation.key is not None:
            self.broken.setdefault(operation.key[0], reason)
        operation.fail(lost(operation.what, reason, operation.where))

    def _give_up(self, operation: Operation, reason: str) -> None:
        """Fail an operation, and say so to the other ranks of its group."""
        if operation.done:
            return
        self._fail(operation, reason)
        if operation.key is not None:
            told = f"rank {self._control.rank} has given up: {reason}"
            self.tell(operation.ranks, "broken", group=operation.key[0], reason=told)

    def _expire(self, operation: Operation, now: float) -> None:
        """Ask the other ranks where they are; a moment later fail the operation and say so to those of its group."""
        asked = self._asked.get(id(operation))
        if asked is None:
            self._asked[id(operation)] = now
            self._answers.clear()
            self.tell(operation.ranks, "where")
        elif now - asked > ANSWER_S:
            del self._asked[id(operation)]
            within = f"not all ranks came within the timeout of {operation.timeout:g} s"
            reason = f"{within}: {self._absence(operation)}"
            self._give_up(operation, reason)

    def _absence(self, operation: Operation) -> str:
        """The ranks that an operation waits for in vain, and what is known of them."""
        key = list(operation.key or ("", 0))
        absent = []
        for rank in operation.ranks:
            places = self._answers.get(rank)
            if rank != self._control.rank and not any(p[:2] == key for p in places or []):
                absent.append(rank)
        if not absent:
            return "all ranks are waiting in it; their data did not arrive"
        said = [
            f"rank {rank} {self._whereabouts(rank, self._answers.get(rank))}" for rank in absent
        ]
        if operation.what == MONITORED:
            ranks = f"Rank{'s' * (len(absent) > 1)} {', '.join(map(str, absent))}"
            said.insert(0, f"{ranks} failed to pass monitoredBarrier")
        return "; ".join(said)

    def _whereabouts(self, rank: int, places: Places | None) -> str:
        if places:
            return "waits in " + ", ".join(place[2] for place in places)
        other = self._identities[rank]
        if other.machine == self._own.machine and _state(other.pid)[0] in ("T", "t"):
            return f"is stopped (process {other.pid})"
        return f"does not answer (process {other.pid}): it runs other code, or hangs"


def _shortened(content: dict[str, object]) -> dict[str, object]:
    return {
        k: f"{v:.1000}" if isinstance(v, str) else v for k, v in content.items() if k != "places"
    }


def lost(what: str, reason: str, where: str | None = None) -> DistBackendError:
    """The error of an operation that other ranks do not come to."""
    return DistBackendError(
        f"{what}: {reason}",
        expected="all ranks of the group, in the same call",
        fix="see what that rank printed; pass init_process_group(timeout=...) if it only needs longer",
        where=where,
    )
