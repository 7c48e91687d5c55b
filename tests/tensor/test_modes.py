"""Grad, inference and eager mode: contexts, decorators, generators, threads, exceptions."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from typing import Any

import pytest

import weft

enabled = weft.is_grad_enabled


def test_contexts_nest_and_restore() -> None:
    with weft.no_grad():
        assert not enabled()
        with weft.enable_grad():
            assert enabled()
        assert not enabled()
    assert enabled()


def test_one_object_may_be_entered_again_while_it_is_on() -> None:
    off = weft.no_grad()
    with off:
        with off:
            assert not enabled()
        assert not enabled()
    assert enabled()


def test_restored_after_exceptions() -> None:
    with pytest.raises(KeyError), weft.no_grad():
        raise KeyError
    assert enabled()


@pytest.mark.parametrize(
    "decorate", [weft.no_grad, weft.no_grad(), weft.inference_mode, weft.inference_mode()]
)
def test_decorator_with_and_without_parentheses(decorate: Any) -> None:
    @decorate
    def inside(a: int, *, b: int = 2) -> tuple[bool, int]:
        """Doc."""
        return enabled(), a + b

    assert inside(1, b=3) == (False, 4)
    assert (inside.__name__, inside.__doc__) == ("inside", "Doc.")
    assert enabled()


def test_decorated_methods_are_methods() -> None:
    class Model:
        @weft.no_grad()
        def run(self) -> bool:
            return enabled() and isinstance(self, Model)

        @weft.no_grad
        def other(self) -> bool:
            return isinstance(self, Model)

    assert not Model().run()
    assert Model().other()


def test_a_decorated_function_may_call_itself() -> None:
    @weft.no_grad()
    def count(n: int) -> int:
        assert not enabled()
        return 0 if n == 0 else 1 + count(n - 1)

    assert count(100) == 100
    assert enabled()


def test_generators_hold_the_mode_only_while_they_run() -> None:
    @weft.no_grad()
    def numbers() -> Generator[bool, int, str]:
        received = yield enabled()
        assert received == 5
        try:
            yield enabled()
        except KeyError:
            yield enabled()
        return "end"

    running = numbers()
    assert next(running) is False
    assert enabled()
    assert running.send(5) is False
    assert running.throw(KeyError()) is False
    with pytest.raises(StopIteration) as stop:
        next(running)
    assert stop.value.value == "end"
    assert enabled()


def test_set_grad_enabled_is_function_context_and_decorator() -> None:
    weft.set_grad_enabled(False)
    assert not enabled()
    weft.set_grad_enabled(True)
    with weft.set_grad_enabled(False):
        assert not enabled()
    assert enabled()

    @weft.set_grad_enabled(False)
    def inside() -> bool:
        return enabled()

    assert enabled()
    assert not inside()


def test_modes_belong_to_threads() -> None:
    seen: list[bool] = []
    with weft.no_grad():
        thread = threading.Thread(target=lambda: seen.append(enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_inference_mode_can_be_ended_inside() -> None:
    with weft.inference_mode():
        assert weft.is_inference_mode_enabled()
        with weft.inference_mode(False):
            assert enabled()
        assert not enabled()
    assert not weft.is_inference_mode_enabled()


def test_operations_in_no_grad_have_no_history() -> None:
    x = weft.ones(2, requires_grad=True)
    with weft.no_grad():
        y = x * 2
    assert y.is_leaf
    assert not y.requires_grad
    assert (x * 2).requires_grad


def test_eager_runs_at_the_call() -> None:
    with weft.eager():
        x = weft.arange(3.0) * 2
        assert x._storage is None or x._storage.node is not None
        pending = weft.engine.ir.tape.tape().count
        assert pending == 0
    assert x.tolist() == [0, 2, 4]


def test_eager_from_the_environment() -> None:
    program = "import weft; x = weft.ones(3) + 1; print(weft.engine.ir.tape.tape().count)"
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "WEFT_EAGER": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split() == ["0"]


def test_no_grad_takes_one_function() -> None:
    with pytest.raises(TypeError, match="at most one function"):
        weft.no_grad(len, len)


def test_a_coroutine_can_switch_modes() -> None:
    async def work() -> bool:
        with weft.no_grad():
            return enabled()

    assert asyncio.run(work()) is False
    assert enabled()
