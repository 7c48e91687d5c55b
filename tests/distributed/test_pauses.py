"""Pauses: what a thread that waits asks Linux for."""

from __future__ import annotations

import ctypes
import platform
import re
import sys
import threading
from collections.abc import Callable

import pytest

from weft.distributed.pauses import SCHEDULING_CALLS, SLACK_NS, SLICE_NS, Pause, Scheduling

release = re.match(r"(\d+)\.(\d+)", platform.release())
has_slices = (
    sys.platform == "linux"
    and platform.machine() in SCHEDULING_CALLS
    and release is not None
    and (int(release[1]), int(release[2])) >= (6, 12)
)
PR_GET_TIMERSLACK = 30


def scheduling() -> Scheduling:
    """How the thread that asks is scheduled."""
    found, (_, to_get) = Scheduling(), SCHEDULING_CALLS[platform.machine()]
    size = ctypes.sizeof(found)
    assert ctypes.CDLL(None).syscall(to_get, 0, ctypes.byref(found), size, 0) == 0
    return found


def in_a_thread(ask: Callable[[], None]) -> None:
    """Run something in a thread of its own, which ends with what it asked for."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            ask()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


@pytest.mark.skipif(
    not has_slices, reason="needs a scheduler with slices: Linux 6.12 on a known processor"
)
def test_a_thread_that_waits_has_short_slices_and_the_priority_that_it_had() -> None:
    def ask() -> None:
        before = scheduling()
        before.slice_ns = (
            20 * SLICE_NS
        )  # a thread has the slices of the one that began it, which may have asked
        to_set, _ = SCHEDULING_CALLS[platform.machine()]
        assert ctypes.CDLL(None).syscall(to_set, 0, ctypes.byref(before), 0) == 0
        before = scheduling()
        Pause()
        after = scheduling()
        assert before.slice_ns != SLICE_NS == after.slice_ns
        assert (before.policy, before.nice) == (after.policy, after.nice)

    in_a_thread(ask)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_sleeps_of_a_thread_that_waits_end_in_time() -> None:
    def ask() -> None:
        Pause()
        assert ctypes.CDLL(None).prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == SLACK_NS

    in_a_thread(ask)


def test_a_machine_without_slices_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "unknown")
    in_a_thread(lambda: Pause().rest(moved=False))
