"""Pauses between the tests of what is waited for, and what a thread that waits asks Linux for.

What such a thread does when it wakes up is what other ranks wait for. So it asks for sleeps that end in time, and for
short slices of the processor: the scheduler (EEVDF, Linux 6.12 and later) lets a thread that wakes up run at once where
those that run have asked for longer ones. Its share of the processor stays the same. It asks once: each time costs it
its turn.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import threading
import time

TESTS_BEFORE_SLEEP = 32
SHORTEST_SLEEP_S, LONGEST_SLEEP_S = 20e-6, 1e-3
PR_SET_TIMERSLACK = 29  # of Linux: how late a thread's sleeps may end, by default 50 us
SLACK_NS = 1000
SLICE_NS = 100_000  # the shortest that there is; by default 1 to 3 ms
# The numbers of sched_setattr and sched_getattr, which not every C library has functions for.
SCHEDULING_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}
FAIR_POLICIES = (0, 3)  # SCHED_OTHER and SCHED_BATCH, whose threads have slices

_thread = threading.local()


class Scheduling(ctypes.Structure):
    """The struct sched_attr of Linux."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("slice_ns", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    ]


def _wake_exactly() -> None:
    """Have this thread's sleeps end when they should: a sleep of 20 us takes 90 otherwise."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0)


def _ask_for_short_slices() -> None:
    """Ask for this thread's slices; where there are none, or it may not ask, nothing changes."""
    numbers = SCHEDULING_CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if numbers is None:
        return
    to_set, to_get = numbers
    scheduling, syscall = Scheduling(), ctypes.CDLL(None).syscall
    known = syscall(to_get, 0, ctypes.byref(scheduling), ctypes.sizeof(scheduling), 0) == 0
    if known and scheduling.policy in FAIR_POLICIES:
        scheduling.slice_ns = SLICE_NS
        syscall(to_set, 0, ctypes.byref(scheduling), 0)


class Pause:
    """Waiting that begins with a few turns without sleep, and sleeps longer and longer; shortly while data move."""

    def __init__(self) -> None:
        self._turns, self._sleep = 0, SHORTEST_SLEEP_S
        if not getattr(_thread, "is_prompt", False):
            _thread.is_prompt = True
            _wake_exactly()
            _ask_for_short_slices()

    def rest(self, moved: bool, is_moving: bool = False) -> None:
        """Wait for a moment, or not at all after something has moved; `is_moving` where data are on their way, which
        do not move on between tests."""
        if moved:
            self._turns, self._sleep = 0, SHORTEST_SLEEP_S
            return
        self._turns += 1
        if self._turns > TESTS_BEFORE_SLEEP:
            time.sleep(self._sleep)
            if not is_moving:
                self._sleep = min(self._sleep * 1.5, LONGEST_SLEEP_S)
