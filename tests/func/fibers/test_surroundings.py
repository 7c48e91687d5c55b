"""`weft.map` inside itself, in threads, among other greenlets, under a debugger."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from counting_flushes import collatz, flushes_of

import weft


def test_nested_maps_wait_together() -> None:
    def inner(pair: tuple[int, int]) -> float:
        x = weft.tensor(float(pair[0])) + pair[1]
        while x.item() < 50:
            x = x * 2 + weft.rand(())
        return x.item()

    def outer(n: int) -> list[float]:
        first = weft.map(inner, [(n, m) for m in range(n + 1)])
        return [*first, (weft.tensor(first).sum() + weft.rand(())).item()]

    weft.manual_seed(7)
    found, flushes = flushes_of(lambda: weft.map(outer, range(5)))
    weft.manual_seed(7)
    alone, many = flushes_of(lambda: weft.map(outer, range(5), at_most=1))
    assert found == alone
    assert flushes <= 9 < many


def test_a_failure_in_a_nested_map() -> None:
    closed: list[tuple[int, int]] = []

    def outer(n: int) -> Any:
        def inner(m: int) -> float:
            try:
                value = (weft.tensor(n * 10 + m) + 1).item()
                if (n, m) == (1, 2):
                    raise ValueError("here")
                return (weft.tensor(value) * 2).item()
            finally:
                closed.append((n, m))

        return weft.map(inner, range(4))

    with pytest.raises(ValueError, match="here") as caught:
        weft.map(outer, range(3))
    assert caught.value.__notes__ == [
        "weft.map: raised by example 2",
        "weft.map: raised by example 1",
    ]
    assert sorted(closed) == [(n, m) for n in range(3) for m in range(4)]


def test_a_map_in_a_generator_of_examples() -> None:
    def double(n: int) -> int:
        return int((weft.tensor(n) * 2).item())

    def examples() -> Iterator[int]:
        for n in range(4):
            yield sum(weft.map(double, range(n)))

    assert weft.map(double, examples()) == [0, 0, 4, 12]


def test_threads_have_fibers_of_their_own() -> None:
    found: dict[int, Any] = {}

    def work(k: int) -> None:
        found[k] = [weft.map(collatz, [weft.tensor(n + k) for n in range(1, 15)]) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        assert found[k] == [[collatz(weft.tensor(n + k)) for n in range(1, 15)]] * 3


def test_another_thread_reads_what_a_fiber_has_pending() -> None:
    def function(n: int) -> float:
        x = weft.tensor(float(n)) * 3
        found: list[float] = []
        thread = threading.Thread(target=lambda: found.append(x.item()))
        thread.start()
        thread.join()
        return found[0] + (x + 1).item()

    assert weft.map(function, range(4)) == [6.0 * n + 1 for n in range(4)]


def test_fibers_of_the_user_inside() -> None:
    from greenlet import greenlet

    def function(n: int) -> float:
        return greenlet(lambda: (weft.tensor(n) + 1).item()).switch()  # type: ignore[no-any-return]

    assert weft.map(function, range(5)) == [1, 2, 3, 4, 5]


def test_generators_that_are_suspended_inside() -> None:
    def numbers(x: Any) -> Iterator[float]:
        while True:
            x = x + 1
            yield x.item()

    def function(n: int) -> list[float]:
        stream = numbers(weft.tensor(float(n)))
        return [next(stream) for _ in range(n)]

    assert weft.map(function, range(5)) == [[float(n + k + 1) for k in range(n)] for n in range(5)]


# -- looking inside ------------------------------------------------------------------------------------------------


def test_a_debugger_stops_in_the_right_fiber() -> None:
    program = """
    import weft
    def function(n):
        doubled = weft.tensor(n) * 2
        value = doubled.item()
        if n == 2:
            breakpoint()
        after = (doubled + 1).item()
        return value + after
    print(weft.map(function, range(4)))
    """
    commands = "p 'n is', n, value\nn\nn\np 'after', after\nw\nc\n"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        input=commands,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "('n is', 2, 4)" in done.stdout, done.stdout + done.stderr
    assert "('after', 5)" in done.stdout, done.stdout
    assert done.stdout.rstrip().endswith("[1, 5, 9, 13]")


def test_a_trace_function_sees_every_fiber() -> None:
    seen: list[tuple[str, Any]] = []

    def function(n: int) -> float:
        x = weft.tensor(n)
        x = x + 1
        return x.item()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code is function.__code__:
            seen.append((event, frame.f_locals.get("n")))
            return trace
        return None

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        weft.map(function, range(3))
    finally:
        sys.settrace(previous)
    for n in range(3):
        assert [event for event, m in seen if m == n] == ["call", "line", "line", "line", "return"]


def test_a_traceback_shows_the_users_lines() -> None:
    def helper(x: Any) -> Any:
        return x.item() / 0

    def function(n: int) -> Any:
        return helper(weft.tensor(n) + 1)

    with pytest.raises(ZeroDivisionError) as caught:
        weft.map(function, range(3))
    names = [entry.name for entry in caught.traceback]
    assert names[-2:] == ["function", "helper"]
    assert "test_a_traceback_shows_the_users_lines" in names
