"""Background compilation: a queue that is bounded, survives failures, forks and ends; programs that wait for nothing
and show the same bits."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import weft
from weft.config import config
from weft.engine.devices.cpu import background, jit
from weft.engine.devices.cpu.background import BackgroundCompiler, KernelRequest
from weft.engine.devices.cpu.jit import Compiler
from weft.engine.devices.cpu.lowering import compile_kernels
from weft.engine.pipeline import driver
from weft.engine.runtime.commit import counters
from weft.testing.tuned import tuned

LONG = 60.0  # seconds after which a test gives up


def request(key: str) -> KernelRequest:
    return KernelRequest(key, str, [key])


class Gate:
    """Compiles nothing: waits until it is opened."""

    def __init__(self) -> None:
        self.open, self.begun = threading.Event(), threading.Event()
        self.compiled: list[str] = []

    def __call__(self, request: KernelRequest, text: str) -> bytes:
        self.begun.set()
        assert self.open.wait(LONG)
        self.compiled.append(request.key)
        if request.key.startswith("bad"):
            raise ValueError("bad IR")
        return request.key.encode()


@pytest.fixture
def gate() -> Iterator[Gate]:
    found = Gate()
    yield found
    found.open.set()


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of whoever asks for kernels: writing their IR takes no time, whatever else the machine does."""
    clock = [0.0]
    monkeypatch.setattr(compile_kernels, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    return clock


def find(request: KernelRequest) -> bytes | str:
    return b"code" if request.key.startswith("shipped") else "IR"


def test_a_kernel_is_waited_for_until_it_is_compiled(gate: Gate) -> None:
    compiler = BackgroundCompiler(find, gate)
    assert compiler.waits_for(request("f")) and compiler.waits_for(request("f"))
    assert compiler.take("f") is None
    gate.open.set()
    assert compiler.drain(LONG)
    assert not compiler.waits_for(request("f")) and gate.compiled == ["f"]
    assert compiler.take("f") == b"f" and compiler.take("f") is None


def test_waiting_ends_with_the_kernel_or_with_the_time(gate: Gate) -> None:
    compiler = BackgroundCompiler(find, gate)
    assert compiler.waits_for(request("f"))
    compiler.wait(["f", "unknown"], 0.01)
    assert "f" in compiler.asked
    opening = threading.Timer(0.05, gate.open.set)
    opening.start()
    compiler.wait(["unknown", "f", "f"], LONG)
    assert "f" not in compiler.asked and compiler.take("f") == b"f"


def test_steps_wait_within_an_allowance(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step has waited the next one does not wait again, until time has passed."""
    clock: list[float] = [0.0]
    waited: list[float] = []

    def wait(keys: Iterable[str], seconds: float) -> None:
        waited.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(background.time, "monotonic", lambda: clock[0])
    compiler = BackgroundCompiler(find, gate)
    monkeypatch.setattr(compiler, "wait", wait)
    for pause in (0.0, 0.0, 0.02, 1.0, 0.0):
        clock[0] += pause
        compiler.wait_in_step(["f"], 0.008)
    assert waited == pytest.approx([0.008, 0.002, 0.002, 0.008, 0.002], abs=1e-9)


def test_what_is_at_hand_is_not_queued(gate: Gate) -> None:
    compiler = BackgroundCompiler(find, gate)
    assert not compiler.waits_for(request("shipped"))
    assert compiler.drain(0) and not gate.begun.is_set() and compiler.take("shipped") == b"code"


def test_the_first_that_is_asked_for_is_compiled_first(gate: Gate) -> None:
    compiler = BackgroundCompiler(find, gate)
    keys = [f"f{number}" for number in range(20)]
    assert all(compiler.waits_for(request(key)) for key in keys)
    gate.open.set()
    assert compiler.drain(LONG) and gate.compiled == keys


def test_a_failure_is_left_to_who_wants_the_kernel(gate: Gate) -> None:
    compiler = BackgroundCompiler(find, gate)
    gate.open.set()
    assert compiler.waits_for(request("bad")) and compiler.waits_for(request("good"))
    assert compiler.drain(LONG)
    for _ in range(3):
        assert not compiler.waits_for(request("bad")) and compiler.take("bad") is None
    assert compiler.take("good") == b"good"


def test_whatever_ends_a_compilation_does_not_end_the_others(gate: Gate) -> None:
    def leave(request: KernelRequest, text: str) -> bytes:
        if request.key == "f":
            raise SystemExit
        return gate(request, text)

    compiler = BackgroundCompiler(find, leave)
    gate.open.set()
    assert compiler.waits_for(request("f")) and compiler.waits_for(request("g"))
    assert compiler.drain(LONG) and compiler.take("g") == b"g"
    assert not compiler.waits_for(request("f")) and compiler.take("f") is None


def test_signals_wait_while_kernels_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt at any moment of asking leaves no kernel that is waited for for ever."""
    asked: list[str] = []

    def waits_for(request: KernelRequest) -> bool:
        signal.raise_signal(signal.SIGINT)
        asked.append(request.key)
        return True

    monkeypatch.setattr(jit.background, "waits_for", waits_for)
    specs: list[Any] = [SimpleNamespace(name=name, build=str, symbols=()) for name in "fg"]
    with pytest.raises(KeyboardInterrupt):
        compile_kernels.specs_in_background(specs[:1], 1.0)
    assert asked == ["f"]


def test_a_step_whose_time_is_over_waits_no_longer(
    monkeypatch: pytest.MonkeyPatch, stopped: list[float]
) -> None:
    """Writing IR has taken all of it: what has been asked for goes on, the rest is left to the next flush."""
    asked: list[str] = []

    def waits_for(request: KernelRequest) -> bool:
        stopped[0] += 0.006
        asked.append(request.key)
        return True

    monkeypatch.setattr(jit.background, "waits_for", waits_for)
    monkeypatch.setattr(jit.background, "wait_in_step", None)
    specs: list[Any] = [SimpleNamespace(name=name, build=str, symbols=()) for name in "fghi"]
    assert compile_kernels.specs_in_background(specs, 0.01) == specs
    assert asked == ["f", "g"]
    assert compile_kernels.specs_in_background([], 0.01) == []


def test_the_queue_and_what_is_finished_are_bounded(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "MOST_WAITING", 3)
    monkeypatch.setattr(background, "MOST_FINISHED", 2)
    compiler = BackgroundCompiler(find, gate)
    assert compiler.waits_for(request("first")) and gate.begun.wait(LONG)
    assert all(compiler.waits_for(request(f"f{number}")) for number in range(9))
    gate.open.set()
    assert compiler.drain(LONG) and gate.compiled == ["first", "f0", "f1", "f2"]
    assert [compiler.take(key) for key in gate.compiled] == [None, None, b"f1", b"f2"]
    assert compiler.waits_for(request("f8"))  # asked for again


def test_nothing_is_taken_after_the_end(gate: Gate) -> None:
    compiler = BackgroundCompiler(find, gate)
    assert compiler.waits_for(request("f")) and gate.begun.wait(LONG)
    assert compiler.waits_for(request("g"))
    ending = threading.Thread(target=compiler.close)
    ending.start()
    ending.join(0.05)
    assert ending.is_alive()  # LLVM is in the middle of a kernel
    gate.open.set()
    ending.join(LONG)
    assert compiler.drain(LONG) and gate.compiled == ["f"]
    assert not compiler.waits_for(request("h"))


def test_without_threads_callers_compile(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    compiler = BackgroundCompiler(find, gate)
    assert not compiler.waits_for(request("f")) and compiler.drain(0)


def test_a_compiler_takes_what_the_thread_has_made() -> None:
    compiler = Compiler()
    text = "define i64 @background_seven() {\n  ret i64 7\n}\n"
    wanted = KernelRequest("background_seven", lambda: text, ["background_seven"])
    thread = compiler.compile_in_background()
    assert thread.waits_for(wanted) and thread.drain(LONG)
    made = compiler.counters.compilations + compiler.counters.disk_hits
    (library,) = compiler.batch([wanted])
    assert library["background_seven"] and made == 1
    assert compiler.counters.compilations + compiler.counters.disk_hits == made


# -- programs ------------------------------------------------------------------------------------------------------


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch, stopped: list[float]) -> Iterator[Gate]:
    """The host's thread, held until the gate is opened; every fused kernel counts as unknown until then."""
    gate = Gate()
    assert jit.background.drain(LONG)
    compile_text, find_code = jit.background._compile_text, jit.background._find

    def compiled(request: KernelRequest, text: str) -> bytes:
        gate(request, text)
        return compile_text(request, text)

    def found(request: KernelRequest) -> bytes | str:
        return find_code(request) if gate.open.is_set() else request.build()

    def wait(keys: Iterable[str], seconds: float) -> None:
        if gate.open.is_set():
            BackgroundCompiler.wait(jit.background, keys, seconds)

    monkeypatch.setattr(jit.background, "wait", wait)
    monkeypatch.setattr(jit.background, "_compile_text", compiled)
    monkeypatch.setattr(jit.background, "_find", found)
    monkeypatch.setattr(config, "background_compilation", True)
    monkeypatch.setattr(config, "interpreter", "none")
    with tuned(
        "tiering", most_waits=1
    ):  # the kernels of what comes back are asked for at its next run
        yield gate
    gate.open.set()
    assert jit.background.drain(LONG)


def steps(count: int, inner: str, outer: str) -> Iterator[tuple[int, Any]]:
    """Launches and bits of a step; of which kernels, two functions say that no other test names."""
    generator = weft.Generator().manual_seed(0)
    x = weft.randn(6, 7, generator=generator)
    for _ in range(count):
        w = x.clone().requires_grad_()
        before = dict(counters)["launches"]
        loss = (getattr(w * 3, inner)().exp() / (getattr(w, outer)() + 9)).tanh().mul(w).sum(1)
        loss.square().sum().backward()
        bits = loss.tolist(), w.grad.tolist()
        driver.realize()
        yield dict(counters)["launches"] - before, bits


def test_steps_wait_for_no_compiler_and_show_the_same_bits(held: Gate) -> None:
    slow = list(steps(8, "sin", "cosh"))
    assert held.begun.wait(LONG) and not held.compiled
    held.open.set()
    assert jit.background.drain(LONG)
    fast = list(steps(5, "sin", "cosh"))
    assert {repr(bits) for _, bits in slow + fast} == {repr(slow[0][1])}
    assert slow[-1][0] > 2 * fast[-1][0]


def test_a_step_waits_for_what_is_nearly_done(
    monkeypatch: pytest.MonkeyPatch, stopped: list[float]
) -> None:
    """Kernels that are compiled in less than 10 ms are there in the step that wants them, as without the thread."""
    waited: list[float] = []

    def wait(keys: Iterable[str], seconds: float) -> None:
        waited.append(seconds)
        BackgroundCompiler.wait(jit.background, keys, LONG)

    monkeypatch.setattr(config, "background_compilation", True)
    monkeypatch.setattr(config, "interpreter", "none")
    monkeypatch.setattr(jit.background, "_find", lambda request: request.build())  # nowhere yet
    monkeypatch.setattr(jit.background, "wait_in_step", wait)
    with tuned("tiering", most_waits=1):
        counts = [count for count, _ in steps(8, "expm1", "sinh")]
    assert set(waited) == {0.01} and counts[-1] < counts[0] / 2


def test_kernels_of_what_comes_back_a_few_times_are_not_asked_for(held: Gate) -> None:
    """An inner loop of a few steps over a graph that never comes again writes no IR; a long one does."""
    with tuned("tiering", most_waits=8):
        few = list(steps(6, "asinh", "atan"))
        assert not held.begun.is_set()
        many = list(steps(8, "asinh", "atan"))
        assert held.begun.wait(LONG)
    assert {repr(bits) for _, bits in few + many} == {repr(few[0][1])}


def test_a_program_is_known_while_its_kernels_are_awaited(held: Gate) -> None:
    from weft.engine.runtime import executable_cache

    list(steps(8, "cos", "atan"))
    before = executable_cache.counters["hits"]
    list(steps(5, "cos", "atan"))  # the first makes its input, too
    assert not held.compiled and executable_cache.counters["hits"] >= before + 3


def test_what_is_compiled_for_many_elements_serves_few_that_await_it(held: Gate) -> None:
    """One text: what is awaited for a small tensor is compiled at once beside a large one, and both run whole."""

    def step(*given: weft.Tensor) -> tuple[int, list[Any]]:
        before = dict(counters)["launches"]
        values = [((x * 0.1).atanh().exp() / (x.cosh() + 7)).erfc() for x in given]
        weft.realize(*values)
        return dict(counters)["launches"] - before, values[0].tolist()

    few, many = weft.randn(3, 5).clamp(-2, 2), weft.randn(30, 50).clamp(-2, 2)
    weft.realize(few, many)
    with tuned("tiering", long_elements=5000):
        alone = [step(few) for _ in range(8)]
        assert held.begun.wait(LONG) and alone[-1][0] > 2
        launches, bits = step(few, many)
    assert not held.compiled and launches <= 2
    assert bits == alone[0][1] == step(few)[1]


def test_a_kernel_that_fails_fails_in_the_step_that_wants_it(
    held: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Compiler, text: str) -> bytes:
        raise ValueError("LLVM says no")

    expected = list(steps(8, "erf", "asinh"))
    monkeypatch.setattr(Compiler, "compile", fail)
    monkeypatch.setattr(Compiler, "_noted_code", lambda self, request: None)
    monkeypatch.setattr(Compiler, "_stored", lambda self, name: None)
    held.open.set()
    assert jit.background.drain(LONG)
    with pytest.raises(ValueError, match="LLVM says no"):
        list(steps(2, "erf", "asinh"))
    monkeypatch.undo()
    assert [bits for _, bits in steps(2, "erf", "asinh")] == [expected[0][1]] * 2


PROGRAM = """
import os, sys, weft
def step(n):
    x = weft.linspace(0, 1, 12).reshape(3, 4).requires_grad_()
    y = x
    for k in range(n):
        y = (y * (1.0625 + k)).sin().exp() / (y.cosh() + 2)
    y.sum().backward()
    return x.grad.tolist()
for n in range(1, 25):
    for _ in range(8):
        step(n)
"""


def run(rest: str) -> subprocess.CompletedProcess[str]:
    environment = {"WEFT_CACHE_DIR": "", "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM + rest],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_a_process_ends_in_the_middle_of_compiling() -> None:
    done = run(
        "from weft.engine.devices.cpu.jit import background; print(len(background.asked) > 0)"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_a_child_compiles_although_its_parent_forked_in_the_middle() -> None:
    done = run(
        "child = os.fork()\n"
        "values = [step(n) for n in (30, 31, 30, 30)]\n"
        "if child == 0:\n    os._exit(0 if values[0] == values[3] else 1)\n"
        "print(os.waitpid(child, 0)[1])"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
