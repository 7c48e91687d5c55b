"""`weft.multiprocessing`: processes that are started, end, raise and are killed; tensors that go to them and back."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

import weft
from weft import multiprocessing as mp


def add(index: int, results: Any, x: weft.Tensor) -> None:
    results.put((index, (x + index).tolist()))


def fail_at_one(index: int) -> None:
    if index == 1:
        raise ValueError("number one")
    time.sleep(60)


def end_with_three(index: int) -> None:
    raise SystemExit(3)


def kill_itself(index: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_standard_librarys_names_are_there() -> None:
    assert mp.Queue and mp.Process and mp.get_context("spawn") and mp.cpu_count() > 0
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    with pytest.raises(AssertionError, match="no sharing strategy"):
        mp.set_sharing_strategy("pigeons")


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_tensors_go_there_and_numbers_come_back(method: str) -> None:
    results = mp.get_context(method).SimpleQueue()
    assert (
        mp.start_processes(add, (results, weft.tensor([1.0, 2.0])), 3, start_method=method) is None
    )
    assert sorted(results.get() for _ in range(3)) == [(i, [1.0 + i, 2.0 + i]) for i in range(3)]


def test_a_context_is_joined_later() -> None:
    results = mp.get_context("spawn").SimpleQueue()
    context = mp.spawn(add, (results, weft.zeros(1)), nprocs=2, join=False)
    assert context is not None and len(set(context.pids())) == 2
    while not context.join(timeout=30):
        pass
    assert {results.get()[0] for _ in range(2)} == {0, 1}


def test_what_one_raises_ends_all_and_has_its_traceback() -> None:
    start = time.monotonic()
    with pytest.raises(
        mp.ProcessRaisedException, match="Process 1 terminated.*\n(.*\n)*.*number one"
    ) as caught:
        mp.start_processes(fail_at_one, nprocs=3, start_method="fork")
    assert caught.value.error_index == 1 and "in fail_at_one" in str(caught.value)
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    ("function", "text", "code"),
    [(end_with_three, "exit code 3", 3), (kill_itself, "signal 9", -9)],
    ids=["exit", "killed"],
)
def test_how_a_process_ended_is_said(function: Any, text: str, code: int) -> None:
    with pytest.raises(mp.ProcessExitedException, match=text) as caught:
        mp.start_processes(function, start_method="fork")
    assert caught.value.exit_code == code


def test_no_process_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="nprocs is 0"):
        mp.spawn(add, nprocs=0)
