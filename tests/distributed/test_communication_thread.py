"""Progress: the thread that carries on what nobody waits for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator

import pytest

from weft.distributed.backends.protocol import Request
from weft.distributed.progress import Channel, Operation, Progress

SECONDS = 5.0


class _Once:
    """The request of a transfer that is over when it is tested the second time."""

    def __init__(self) -> None:
        self._tests = 0

    def test(self) -> bool:
        """True from the second test on."""
        self._tests += 1
        return self._tests > 1


def operation_that_sets(event: threading.Event) -> Operation:
    """An operation of one transfer, whose end sets an event; it may take as long as the test."""

    def steps() -> Generator[Request, None, None]:
        yield _Once()
        event.set()

    return Operation(steps(), "a transfer", "", (), SECONDS)


def test_what_begins_while_the_thread_goes_to_sleep_is_carried_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The moment at which the thread clears its event is that at which another operation asks for it."""
    progress = Progress(lambda under_way: None)
    first, second = threading.Event(), threading.Event()

    def begin(ended: threading.Event) -> None:
        channel: Channel = deque()
        progress.start(channel, operation_that_sets(ended))
        progress.carry_on()

    class Asked(threading.Event):
        """An event which the second operation sets just before it is cleared for the first time."""

        def clear(self) -> None:
            """Begin the second operation once, then clear."""
            if not begun:
                begun.append(True)
                begin(second)
            super().clear()

    begun: list[bool] = []
    monkeypatch.setattr(progress, "_wanted", Asked())
    begin(first)
    assert first.wait(SECONDS)
    assert second.wait(SECONDS), "the second operation has been left alone"
