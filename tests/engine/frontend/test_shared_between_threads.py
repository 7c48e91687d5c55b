"""Tensors that several threads write to: what one thread has pending keeps what it reads, whoever runs it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import weft


def elsewhere(function: Callable[[], Any]) -> None:
    """Call a function on a thread of its own, and wait for it."""
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_a_run_keeps_what_another_thread_has_still_to_read() -> None:
    x = weft.ones(3) + 1
    doubled = x * 2
    elsewhere(lambda: x.add_(1))  # x's former value has no handle any more
    assert doubled.tolist() == [4.0] * 3
    assert x.tolist() == [3.0] * 3


def test_a_run_keeps_what_it_takes_from_another_thread() -> None:
    made: list[Any] = []

    def record() -> None:
        first = weft.ones(3) + 1
        second = first.exp()
        made.extend([second.log(), second * 0])

    elsewhere(record)
    assert (made[0] + 1).sum().item() > 8
    assert made[1].tolist() == [0.0] * 3


def test_a_failure_reaches_what_another_thread_has_recorded() -> None:
    x = weft.zeros(3)
    late = weft.tensor([2]) + 1
    y = x[late]

    def extend() -> None:
        made.append(y + 1)

    made: list[Any] = []
    elsewhere(extend)
    for tensor in (y, *made):
        try:
            tensor.tolist()
        except IndexError as error:
            assert "index 3 is out of bounds" in str(error)
        else:
            raise AssertionError("the index is out of range")


def test_an_interpreter_may_end_while_threads_left_work_behind() -> None:
    program = """
import threading, weft
x = weft.ones(3)
x[weft.tensor([1]) + 0] = 2.0
def write():
    x[weft.tensor([2]) + 0] = 3.0
for _ in range(3):
    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_what_another_thread_has_still_to_read_makes_no_room_for_a_new_value() -> None:
    """It has been computed, and nothing but the other thread's pending work needs it."""
    x = weft.arange(64.0)
    weft.realize(x)
    recorded, changed = threading.Event(), threading.Event()
    seen: list[Any] = []

    def read() -> None:
        doubled = x * 2
        recorded.set()
        changed.wait()
        seen.append(doubled.tolist())

    thread = threading.Thread(target=read)
    thread.start()
    recorded.wait()
    x.add_(100)
    weft.realize(x)
    changed.set()
    thread.join()
    assert seen == [[2.0 * element for element in range(64)]]
