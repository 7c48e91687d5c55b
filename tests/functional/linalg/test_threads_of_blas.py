"""Linear algebra by NumPy and SciPy takes as many threads as Weft, one for few rows, and leaves no trace."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest

import weft
from weft.functional.support import blas_threads


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What is set, one after the other, where a library starts at 7 threads."""
    found = [7]

    def setter(count: int) -> int:
        found.append(count)
        return found[-2]

    monkeypatch.setattr(
        blas_threads, "_setter", lambda module: setter if module == "numpy.linalg" else None
    )
    return found


@pytest.mark.parametrize("rows", [blas_threads.TINY + 1, blas_threads.FEW, blas_threads.FEW + 1])
def test_a_call_sets_threads_and_puts_them_back(counts: list[int], rows: int) -> None:
    before = weft.get_num_threads()
    weft.set_num_threads(2)
    try:
        x = weft.eye(rows) * 2
        np.testing.assert_allclose(weft.linalg.svdvals(x).numpy(), np.full(rows, 2.0), 1e-6)
        assert counts == [7, 1 if rows <= blas_threads.FEW else 2, 7]
        np.testing.assert_array_equal(weft.linalg.cholesky(x * 2).numpy(), np.eye(rows) * 2)
        assert counts[3:] == counts[1:3]
    finally:
        weft.set_num_threads(before)


def test_nothing_is_set_for_tiny_matrices(counts: list[int]) -> None:
    weft.linalg.svdvals(weft.eye(blas_threads.TINY)).sum().item()
    x = weft.eye(3) * 4
    weft.linalg.lu_solve(*weft.linalg.lu_factor(x), x).sum().item()
    assert counts == [7]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: weft.cholesky_inverse(weft.linalg.cholesky(x)),
    ],
    ids=("potri",),
)
def test_routines_that_would_wait_for_threads_take_one_for_tiny_matrices(
    counts: list[int], function: Any
) -> None:
    function(weft.eye(3) * 4).sum().item()
    assert counts == [7, 1, 7]


def test_they_are_put_back_after_errors(counts: list[int]) -> None:
    with pytest.raises(RuntimeError):
        weft.linalg.inv(weft.zeros(40, 40))
    assert counts[-1] == 7


def test_calls_of_several_threads_put_back_what_was_before_all(counts: list[int]) -> None:
    both = threading.Barrier(2)
    started, finished = threading.Event(), threading.Event()

    def slow(matrix: Any) -> None:
        both.wait()
        started.wait(10)

    def outer() -> None:
        blas_threads.limited(slow)(np.eye(40))
        finished.set()

    worker = threading.Thread(target=outer)
    worker.start()
    both.wait()
    blas_threads.limited(np.linalg.inv)(np.eye(40))
    assert counts == [7, 1]
    started.set()
    worker.join(10)
    assert finished.is_set() and counts == [7, 1, 7]


def test_the_library_of_this_machine_is_found_where_it_is_openblas() -> None:
    built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]  # type: ignore[index,call-overload]
    if "openblas" not in str(built) or not sys.platform.startswith("linux"):
        pytest.skip("another library")
    setter = blas_threads._setter("numpy.linalg")
    assert setter is not None
    before = setter(1)
    assert setter(before) == 1
    weft.linalg.svdvals(weft.eye(4)).sum().item()
    assert setter(before) == before
