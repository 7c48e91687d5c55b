"""Examples of `weft.map` that fail, are ended, or are called wrongly."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft


def test_the_first_example_that_fails_raises_as_in_the_loop() -> None:
    closed: list[int] = []

    def function(n: int) -> int:
        try:
            for _ in range(10 - n):
                (weft.tensor(n) + 1).item()
            if n >= 3:
                raise KeyError(n)
            return n
        finally:
            closed.append(n)

    for at_most in (1, 2, 4, 100):
        closed.clear()
        with pytest.raises(KeyError) as caught:
            weft.map(function, range(8), at_most=at_most)
        assert caught.value.args == (3,)  # though 7 was the first in time
        assert caught.value.__notes__[0] == "weft.map: raised by example 3"
        assert set(closed) >= {0, 1, 2, 3}
    assert weft.map(function, range(3)) == [0, 1, 2]


def test_later_examples_are_closed_and_may_read() -> None:
    log: list[Any] = []

    def function(n: int) -> None:
        x = weft.tensor(n) + 1
        try:
            x.item()
            if n == 0:
                raise ValueError("no")
            (x * 2).item()
            log.append("not reached")
        finally:
            log.append((n, (x * 10).item()))

    with pytest.raises(ValueError, match="no"):
        weft.map(function, range(3))
    assert log == [(0, 10), (2, 30), (1, 20)]


def test_errors_while_closing_are_told() -> None:
    def function(n: int) -> None:
        try:
            (weft.tensor(n) + 1).item()
            if n == 0:
                raise ValueError("first")
            (weft.tensor(n) + 1).item()
        finally:
            if n == 1:
                raise OSError("second")

    with pytest.raises(ValueError, match="first") as caught:
        weft.map(function, range(3))
    assert caught.value.__notes__ == [
        "weft.map: raised by example 0",
        "weft.map: example 1, closed for this, raised OSError('second')",
    ]


def test_return_exceptions() -> None:
    def function(n: int) -> int:
        if (weft.tensor(n) % 2).item():
            raise LookupError(n)
        return n

    found = weft.map(function, range(4), return_exceptions=True)
    assert found[0::2] == [0, 2]
    assert [type(error) for error in found[1::2]] == [LookupError] * 2
    assert found[3].__notes__ == ["weft.map: raised by example 3"]


def test_a_bad_index_fails_its_own_example_only() -> None:
    table = weft.arange(10.0)

    def function(n: int) -> float:
        return table[weft.tensor([n])].sum().item()  # type: ignore[no-any-return]

    found = weft.map(function, [1, 2, 30, 4, 5], return_exceptions=True)
    assert found[:2] + found[3:] == [1.0, 2.0, 4.0, 5.0]
    assert isinstance(found[2], IndexError)
    with pytest.raises(IndexError, match="out of bounds") as caught:
        weft.map(function, [1, 2, 30, 4, 50])
    assert caught.value.__notes__ == ["weft.map: raised by example 2"]
    assert (table + 1).sum().item() == 55


def test_memory_that_is_not_there_fails_its_own_example() -> None:
    def function(n: int) -> list[float]:
        return (weft.rand(1 << 46 if n == 1 else 3) * n)[:2].tolist()  # type: ignore[no-any-return]

    found = weft.map(function, range(3), return_exceptions=True)
    assert isinstance(found[1], MemoryError)
    assert found[0] == [0.0, 0.0] and len(found[2]) == 2


def test_examples_that_fail_to_come() -> None:
    done: list[int] = []

    def examples() -> Iterator[int]:
        yield from range(3)
        raise OSError("disk")

    def function(n: int) -> None:
        for _ in range(3):
            (weft.tensor(n) + 1).item()
        done.append(n)

    with pytest.raises(OSError, match="disk"):
        weft.map(function, examples())
    assert done == [0, 1, 2]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_error_stops_everything_at_once(kind: type[BaseException]) -> None:
    closed: list[int] = []

    def function(n: int) -> None:
        try:
            (weft.tensor(n) + 1).item()
            if n == 2:
                raise kind
            (weft.tensor(n) + 2).item()
        finally:
            closed.append(n)

    with pytest.raises(kind):
        weft.map(function, range(5), return_exceptions=True)
    assert sorted(closed) == [0, 1, 2, 3, 4]
    assert weft.is_grad_enabled() and weft.tensor([1.0]).add(1).item() == 2.0


def test_an_example_may_go_on_after_it_was_ended() -> None:
    def function(n: int) -> int:
        while True:
            try:
                (weft.tensor(n) + 1).item()
                if n == 0:
                    raise ValueError("no")
                (weft.tensor(n) + 1).item()
                return n
            except ValueError:
                raise
            except BaseException:
                continue

    with pytest.raises(ValueError, match="no"):
        weft.map(function, range(3))


def test_ctrl_c() -> None:
    program = """
    import os, signal, threading, time, weft
    closed = []
    def function(n):
        try:
            x = weft.ones(10)
            if n == 9:  # all have begun
                threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            while True:
                x = x * 1.5 / 1.5
                x.sum().item()
        finally:
            closed.append(n)
    try:
        weft.map(function, range(10))
    except KeyboardInterrupt as error:
        print(sorted(closed) == list(range(10)), weft.map(lambda x: (weft.tensor(x) * 2).item(), [1, 2]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "True [2, 4]\n", done.stderr


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: weft.map(3, [1]), TypeError, "function is not callable"),
        (lambda: weft.map([1], lambda x: x), TypeError, "function is not callable"),
        (lambda: weft.map(abs, 5), TypeError, "not iterable"),
        (lambda: weft.map(abs, [1], at_most=0), ValueError, "at least 1"),
        (lambda: weft.map(abs, [1], at_most=-2), ValueError, "at least 1"),
        (lambda: weft.map(abs, [1], at_most=2.5), TypeError, "integer"),
        (lambda: weft.map(abs, [1], at_most="all"), TypeError, "integer"),
        (lambda: weft.map(abs), TypeError, "examples"),
        (lambda: weft.map(lambda: 0, [1]), TypeError, "positional argument"),
        (lambda: weft.map(lambda x: x.item(), [1]), AttributeError, "item"),
        (lambda: weft.map(abs, weft.tensor(1.0)), TypeError, "0-d"),
    ],
)
def test_misuse(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()
