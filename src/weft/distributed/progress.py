"""Progress: operations that are under way, carried on by whoever waits.

An `Operation` is a generator that yields each transfer that it waits for. A `Channel` is a queue of operations of which
the first one runs: that of a group, or of the messages between two ranks. `Progress` lets all channels go on, while a
thread waits, and on a thread of its own while an operation is under way that nobody waits for yet. No processor is kept
busy by waiting: after a few tests a waiting thread sleeps (`pauses`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import TypeVar

from weft.distributed.backends.protocol import Request
from weft.distributed.pauses import LONGEST_SLEEP_S, Pause
from weft.errors import WeftError

T = TypeVar("T")
Steps = Generator[Request, None, T]

LOOK_EVERY_S = 0.02


class _Never:
    """The request of a transfer whose connection is lost."""

    def test(self) -> bool:
        """Not done."""
        return False


class Operation:
    """A collective or a message under way. `ranks` are those that it waits for, by their numbers in the world."""

    def __init__(
        self,
        steps: Steps[object],
        what: str,
        where: str,
        ranks: tuple[int, ...],
        timeout: float,
        key: tuple[str, int] | None = None,
    ) -> None:
        self._steps, self._request = steps, None
        self.what, self.where, self.ranks, self.key = what, where, ranks, key
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout
        self.done, self.result = False, None
        self.transfers = (
            0  # that have begun: the first waits for the other ranks, the others move data
        )
        self.error: BaseException | None = None
        self.lost, self.lost_since = "", 0.0  # why a connection failed: who is gone is found out

    _request: Request | None

    def advance(self) -> bool:
        """Go on as far as possible without waiting; True if anything moved."""
        moved = False
        try:
            while not self.done and (self._request is None or self._request.test()):
                self._request = None  # an error of a step must not test it again
                self._request = next(self._steps)
                self.transfers += 1
                moved = True
        except StopIteration as end:
            self.result, self.done = end.value, True
        except ConnectionError as error:
            self.lost, self.lost_since = str(error), time.monotonic()
            self._request = _Never()
        except WeftError as error:
            self.fail(error)
        return moved or self.done

    def fail(self, error: BaseException) -> None:
        """End it with an error, which waiting for it raises."""
        if not self.done:
            self.error, self.done = error, True
            self._steps.close()


Channel = deque[Operation]


class Progress:
    """All channels of this process. `look` is called now and then with what is under way: it fails what cannot be."""

    def __init__(self, look: Callable[[list[Operation]], None]) -> None:
        self._look, self._looked = look, 0.0
        self._lock = threading.RLock()
        self._channels: dict[int, Channel] = {}
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._waiting: list[Operation] = []  # what threads wait for, and so carry on

    def start(self, channel: Channel, operation: Operation) -> None:
        """Begin an operation, as soon as those before it in its channel are done."""
        with self._lock:
            channel.append(operation)
            self._channels[id(channel)] = channel
            self._advance()

    def follow(self, channel: Channel, operation: Operation) -> None:
        """Have an operation go on behind the one that calls this from its own steps."""
        channel.append(operation)
        self._channels[id(channel)] = channel
        self.carry_on()

    def carry_on(self) -> None:
        """Let what is under way go on while nobody waits, on a thread of its own."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="weft-communication", daemon=True
                )
                self._thread.start()
        self._wanted.set()

    def _run(self) -> None:
        pause = Pause()
        while True:
            self._wanted.wait()
            self._wanted.clear()  # before the look: who sets it during the look is seen by the next wait
            while self._channels:
                if self._waiting:
                    time.sleep(LONGEST_SLEEP_S)
                else:
                    pause.rest(self.poll())

    def poll(self) -> bool:
        """Let everything go on once; True if anything moved."""
        with self._lock:
            moved = self._advance()
            now = time.monotonic()
            if self._channels and not moved and now - self._looked > LOOK_EVERY_S:
                self._looked = now
                self._look([channel[0] for channel in self._channels.values()])
            return moved

    def _advance(self) -> bool:
        moved = False
        for key, channel in list(self._channels.items()):
            while channel:
                moved |= channel[0].advance()
                if not channel[0].done:
                    break
                channel.popleft()
            else:
                del self._channels[key]
        return moved

    def wait(self, operation: Operation, timeout: float | None = None) -> bool:
        """Wait until an operation is done; False if the time is over before."""
        pause, end = Pause(), None if timeout is None else time.monotonic() + timeout
        self._waiting.append(operation)
        try:
            while not operation.done:
                pause.rest(self.poll(), operation.transfers > 1)
                if end is not None and not operation.done and time.monotonic() > end:
                    return False
            return True
        finally:
            self._waiting.remove(operation)

    def waited_for(self) -> Operation | None:
        """The operation whose wait began last; None where nobody waits."""
        return self._waiting[-1] if self._waiting else None

    def drain(self) -> None:
        """Wait until nothing is under way."""
        pause = Pause()
        while self._channels:
            pause.rest(self.poll())

    def forget(self) -> None:
        """Leave alone what is under way: the backend is about to end."""
        with self._lock:
            self._channels.clear()
