"""Interrupts: a signal may come at any moment of a program; nothing is lost, half done, or left in a strange state."""

from __future__ import annotations

import _thread
import functools
import gc
import operator
import os
import random
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft
from weft.engine.capi.interrupts import uninterrupted
from weft.engine.devices.cpu.kernels import scan
from weft.engine.frontend.resolve import value_of
from weft.engine.ir.node import DONE_STATE, PENDING_STATE
from weft.engine.pipeline import driver
from weft.engine.runtime import executable_cache
from weft.errors import is_internal
from weft.functional.support import host
from weft.testing.tuned import tuned

# A signal between opening a file and entering its context leaves the file to the collector: Python's own gap.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SIDE = 384


class Stop(BaseException):
    """What the handler of these tests raises, where Ctrl-C raises KeyboardInterrupt."""


class Alarm:
    """Raises Stop in the main thread after a while, at most once, and never after `off`."""

    def __init__(self) -> None:
        self.armed = False

    def handler(self, *_: Any) -> None:
        if self.armed:
            self.armed = False
            raise Stop

    def after(self, seconds: float) -> None:
        self.armed = True
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def off(self) -> None:
        self.armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.fixture
def alarm() -> Iterator[Alarm]:
    made = Alarm()
    before = signal.signal(signal.SIGALRM, made.handler)
    yield made
    made.off()
    signal.signal(signal.SIGALRM, before)


def long_chain(x: Any, weight: Any, steps: int = 250) -> Any:
    """Some hundred milliseconds of work in many kernels."""
    for _ in range(steps):
        x = (x @ weight).tanh()
    return x


def states(*tensors: Any) -> list[int]:
    return [value_of(tensor).state for tensor in tensors]


def interrupted(alarm: Alarm, run: Callable[[], object], seconds: float) -> bool:
    """Whether a run that takes longer is stopped by a signal after that time."""
    try:
        alarm.after(seconds)
        run()
    except Stop:
        return True
    finally:
        alarm.armed = False  # nothing is to be raised while another failure is reported
    return False


@pytest.mark.parametrize("known", [False, True], ids=["novel program", "known program"])
def test_after_ctrl_c_what_has_not_run_is_pending_and_the_next_read_goes_on(
    alarm: Alarm, known: bool
) -> None:
    weight = weft.eye(SIDE) * 1.01
    x = weft.linspace(-1, 1, SIDE * SIDE).reshape(SIDE, SIDE).clone()
    weft.realize(weight, x)
    executable_cache.clear()
    reference = long_chain(x, weight)
    weft.realize(reference)
    if known:
        for _ in range(3):
            weft.realize(long_chain(x, weight))
    hits = executable_cache.counters["hits"]
    last = long_chain(x, weight)
    assert interrupted(alarm, lambda: weft.realize(last), 0.03)
    assert (executable_cache.counters["hits"] > hits) == known
    assert states(last) == [PENDING_STATE]
    assert states(x, weight) == [DONE_STATE, DONE_STATE]
    assert (last == reference).all()


def test_a_known_program_keeps_no_frame_of_whom_it_interrupted(alarm: Alarm) -> None:
    weight = weft.eye(SIDE) * 1.01
    x = weft.rand(SIDE, SIDE)
    weft.realize(weight, x)
    for _ in range(3):
        weft.realize(long_chain(x, weight))
    of_the_frame: list[weakref.ref[Alarm]] = []

    def user() -> None:
        held = Alarm()
        of_the_frame.append(weakref.ref(held))
        weft.realize(long_chain(x, weight))

    hits = executable_cache.counters["hits"]
    assert interrupted(alarm, user, 0.03)
    assert executable_cache.counters["hits"] > hits
    gc.collect()
    assert of_the_frame[0]() is None


def test_a_signal_behind_the_last_kernel_is_not_lost(alarm: Alarm) -> None:
    """A kernel that takes ten times as long as was estimated: it is not cut, and signals are looked for behind it."""
    x, places = weft.rand(1 << 21), weft.randint(0, 1 << 21, (1 << 21,))
    weft.realize(x, places)
    for _ in range(3):
        weft.realize(x[places])
    for _ in range(5):
        with pytest.raises(Stop):
            alarm.after(0.001)
            weft.realize(x[places])
            while alarm.armed:
                pass


def test_a_handler_does_not_move_what_the_program_reads(alarm: Alarm) -> None:
    """A tensor with an address comes back to it, and takes it along when it goes."""
    weight = weft.eye(SIDE) * 1.01
    start = weft.linspace(-1, 1, SIDE * SIDE).reshape(SIDE, SIDE)
    shown = long_chain(start.clone(), weight)
    held = [start.clone()]
    weft.realize(shown, *held)
    held[0].data_ptr()
    last = long_chain(held[0], weight)
    errors: list[str] = []

    def handler(*_: object) -> None:
        try:
            held[0].data_ptr()
        except RuntimeError as error:
            errors.append(str(error))
        held.clear()

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.03)
    weft.realize(last)
    assert len(errors) == 1 and "inside a running program" in errors[0]
    assert weft.equal(last, shown)


@pytest.mark.parametrize("shape", [(40_000,), (20, 20, 10, 10)])
def test_what_a_scatter_has_added_before_ctrl_c_is_not_added_again(
    alarm: Alarm, shape: tuple[int, ...]
) -> None:
    """Its base is made in the program, and it adds in place: in slices, in several launches."""
    numbers = np.random.default_rng(0)
    if len(shape) == 1:
        index = weft.tensor(numbers.integers(0, shape[0], 4_000_000))
        source = weft.ones(4_000_000).clone()
    else:
        index = weft.tensor(numbers.integers(0, 20, (20, 20, 10, 10))).repeat(40, 1, 1, 1) // 1
        source = weft.ones(800, 20, 10, 10).clone()
        shape = (800, *shape[1:])
    start = weft.zeros(shape).clone()
    weft.realize(index, source, start)

    def made() -> Any:
        base = start * 1.0 + 1.0
        return (
            base.index_add(0, index, source)
            if len(shape) == 1
            else base.scatter_add(1, index, source)
        )

    reference = made().numpy().copy()
    for part in range(12):
        executable_cache.clear()
        value = made()
        interrupted(alarm, lambda value=value: weft.realize(value), 0.002 + 0.004 * part)
        alarm.off()
        assert np.array_equal(value.numpy(), reference)


def long_kernel(kind: str) -> Callable[[], Any]:
    """Work of one kind that a known program does in one launch (and a short one) of some tenths of a second."""
    x = weft.linspace(0.5, 1.5, 1 << 23, dtype=weft.float64).clone()
    rows = x.reshape(-1, 64)
    square = weft.linspace(-1, 1, 2000 * 2000).reshape(2000, 2000).clone()
    weft.realize(x, square)

    def powers(base: Any) -> Any:
        power = base
        for _ in range(8):
            power = power.pow(base)
        return power

    kinds: dict[str, Callable[[], Any]] = {
        "elements": lambda: powers(x),
        "rows": lambda: powers(rows).sum(1),
        "columns": lambda: powers(rows).sum(0),
        "everything": lambda: powers(x).sum(),
        "product": lambda: square @ square,
    }
    return kinds[kind]


@pytest.mark.parametrize("kind", ["elements", "rows", "columns", "everything", "product"])
def test_ctrl_c_stops_in_the_middle_of_a_kernel(alarm: Alarm, kind: str) -> None:
    run = long_kernel(kind)
    reference = run()
    weft.realize(reference)
    for _ in range(2):  # fused kernels come with the second time, known programs with the third
        weft.realize(run())
    launches = driver.counters["launches"]
    value = run()
    assert interrupted(alarm, lambda: weft.realize(value), 0.03)
    assert driver.counters["launches"] - launches <= 2
    assert states(value) == [PENDING_STATE]
    assert bool((value == reference).all())


def test_scans_and_scatters_in_many_launches_give_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Long ones are cut, so that signals can be answered between the parts."""
    x = weft.linspace(-1, 1, 1000).reshape(2, 500).clone()
    index = (weft.arange(1000) * 7) % 30

    def values() -> list[Any]:
        return [
            x.cumsum(1).tolist(),
            x.cumprod(0).tolist(),
            (x.bfloat16() * 0.5 + 1).cumsum(1).tolist(),
            weft.zeros(30).scatter_add(0, index, x.reshape(-1)).tolist(),
            weft.zeros(2, 30).scatter_add(1, index.reshape(2, 500), x).tolist(),
            weft.zeros(30).scatter(0, index, x.reshape(-1)).tolist(),
            weft.zeros(30, 2).index_add(0, index[:500], x.t()).tolist(),
        ]

    whole = values()
    executable_cache.clear()
    monkeypatch.setattr(scan, "SEGMENT", 48)
    with tuned("copies", scattered_positions=37):
        assert values() == whole


def test_ctrl_c_leaves_a_long_function_of_numpy_behind(alarm: Alarm) -> None:
    """Sorting and its like: the call goes on where nobody sees it, and the process with other things."""
    left, ended = threading.Event(), threading.Event()

    def slow(array: Any) -> Any:
        assert left.wait(60)
        ended.set()
        return array

    array = np.zeros(host.LONG)
    assert interrupted(alarm, lambda: host.answering(slow, array), 0.03)
    assert not ended.is_set()
    left.set()
    assert ended.wait(60)
    assert host.answering(slow, array) is array
    with pytest.raises(ZeroDivisionError):
        host.answering(lambda array: 1 // 0, array)


@pytest.mark.parametrize("name", ["sort", "unique", "median"])
def test_large_arrays_have_the_order_of_small_ones(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    x = (weft.arange(1000) * 7919) % 1009

    def result() -> Any:
        found = getattr(x, name)()
        return [part.tolist() for part in (found if isinstance(found, tuple) else (found,))]

    alone = result()
    monkeypatch.setattr(host, "LONG", 1)
    assert result() == alone


def test_a_program_stopped_again_and_again_comes_to_the_right_end(alarm: Alarm) -> None:
    x = weft.linspace(-1, 1, SIDE * SIDE).reshape(SIDE, SIDE).clone()
    weight = weft.eye(SIDE) * 1.01
    reference = long_chain(x, weight).tolist()
    executable_cache.clear()
    last = long_chain(x, weight)
    stops = 0
    while interrupted(alarm, lambda: weft.realize(last), 0.03 * 2**stops):
        stops += 1
    assert stops > 0
    assert last.tolist() == reference


def test_a_known_program_that_overwrites_its_inputs_is_not_begun_again(alarm: Alarm) -> None:
    """A write in place happens once, though the signal comes after it."""

    def step(state: Any) -> Any:
        before = state * 1.0
        state[: SIDE // 2] = before[SIDE // 2 :] + 1
        return before.sum() + long_chain(before, weight).sum() * 0

    weight = weft.eye(SIDE)
    expected = np.arange(SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE) / SIDE**2
    state = weft.tensor(expected)
    for turn in range(5):
        total = step(state)
        expected_total = expected.sum(dtype=np.float64)
        expected[: SIDE // 2] = expected[SIDE // 2 :] + 1
        if turn == 4:
            interrupted(alarm, lambda value=total: weft.realize(value), 0.03)
        assert total.item() == pytest.approx(expected_total, rel=1e-4)
        assert np.array_equal(np.array(state.tolist(), np.float32), expected)


def forward(seed: int) -> tuple[list[Any], list[Any]]:
    """Random pending values, with writes into regions, and what they are."""
    choose, numbers = random.Random(seed), np.random.default_rng(seed)
    a, b = numbers.standard_normal((8, 8)), numbers.standard_normal(8)
    x, y = weft.tensor(a), weft.tensor(b)
    z, e, values, expected = x, a, [], []
    for _ in range(choose.randint(3, 18)):
        kind = choose.randrange(4)
        if kind == 0:
            z, e = (z * 2 + y).tanh(), np.tanh(e * 2 + b)
        elif kind == 1:
            z, e = z.clone(), e.copy()
            z[1:3] = z[3:5] * 3
            e[1:3] = e[3:5] * 3
        elif kind == 2:
            z, e = (z @ x) * 0.25, e @ a * 0.25
        else:
            z, e = z - z.sum(1, keepdim=True), e - e.sum(1, keepdims=True)
        if choose.random() < 0.3:
            values.append(z)
            expected.append(e.copy())
    return [*values, z], [*expected, e]


@pytest.mark.parametrize("seed", range(3))
def test_a_signal_at_any_moment_of_a_flush_changes_no_value(alarm: Alarm, seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(250):
        values, expected = forward(choose.randrange(12))
        patience = 1.0
        while interrupted(alarm, weft.realize, choose.uniform(1e-5, 3e-3) * patience):
            patience *= 1.5
        for value, wanted in zip(values, expected, strict=True):
            assert np.allclose(value.tolist(), wanted, rtol=1e-9, atol=1e-9)


def test_a_signal_at_any_moment_of_a_walk_leaves_the_process_usable(alarm: Alarm) -> None:
    weight = weft.tensor(np.eye(4) * 0.5, requires_grad=True)

    def losses() -> list[Any]:
        return [
            long_chain(weft.full((1, 4), i / 10, dtype=weft.float64), weight, 1 + i % 3)
            for i in range(6)
        ]

    def step() -> list[Any]:
        weight.grad = None
        made = losses()
        weft.stack(made).sum().backward()
        weft.realize()
        return made

    values = [loss.tolist() for loss in step()]
    gradient = weight.grad.tolist()
    choose = random.Random(0)
    stops = 0
    for _ in range(300):
        stops += interrupted(alarm, step, choose.uniform(1e-5, 2.5e-3))
        assert gc.isenabled() and weft.is_grad_enabled()
        assert [loss.tolist() for loss in step()] == values
        assert np.allclose(weight.grad.tolist(), gradient, rtol=1e-12)
    assert stops > 0


def test_a_step_of_an_optimizer_is_made_by_all_parameters_or_by_none(alarm: Alarm) -> None:
    parameters = [weft.zeros(3, requires_grad=True) for _ in range(40)]
    optimizer = weft.optim.SGD(parameters, lr=1.0, momentum=0.5)
    for parameter in parameters:
        parameter.grad = weft.ones(3)
    weft.realize()
    choose = random.Random(0)
    stops = 0
    for _ in range(100):
        stops += interrupted(alarm, optimizer.step, choose.uniform(1e-5, 1.5e-3))
        assert len({tuple(parameter.tolist()) for parameter in parameters}) == 1
    assert stops > 0


def test_in_a_section_the_first_signal_waits_and_the_second_does_not(alarm: Alarm) -> None:
    reached = []
    alarm.armed = True
    with pytest.raises(Stop), uninterrupted():
        signal.raise_signal(signal.SIGALRM)
        reached.append("after the first")
    assert reached == ["after the first"]
    alarm.armed = True
    with pytest.raises(Stop), uninterrupted():
        signal.raise_signal(signal.SIGALRM)
        signal.raise_signal(signal.SIGALRM)
        reached.append("after the second")
    assert reached == ["after the first"]
    assert signal.getsignal(signal.SIGALRM) == alarm.handler


def _raised_inside(filename: str) -> None:
    """Record an operation below a frame of a new source file, with a signal pending that nothing has looked at yet."""
    text = "def run(*calls):\n    return list(map(operator.call, calls))\n"
    names: dict[str, Any] = {"operator": operator}
    exec(compile(text, filename, "exec"), names)
    x = weft.ones(2)
    interrupt = functools.partial(_thread.interrupt_main, signal.SIGALRM)
    with pytest.raises(Stop):
        names["run"](interrupt, functools.partial(operator.add, x, x))


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("relative", [True, False])
def test_a_signal_while_a_file_of_the_library_is_first_met(alarm: Alarm, relative: bool) -> None:
    """Whose a file is, is decided without running Python: there the handler's exception would be lost."""
    alarm.armed = True
    folder = os.path.dirname(weft.__file__)
    path = os.path.join(folder, "engine", "..", f"never_met_{relative}.py")
    _raised_inside(os.path.relpath(path) if relative else path)


def test_whose_a_file_is() -> None:
    """Compiled and not, the same files are the library's own; a user's line is found past them."""
    folder = os.path.dirname(weft.__file__)
    inside = [f"{folder}/a.py", f"{folder}//nn/./b.py", f"{folder}/demo/../c.py"]
    outside = [f"{folder}/demo/d.py", f"{folder}/../e.py", f"{folder}_f.py", "<string>", "g.py"]
    for number, path in enumerate((*inside, *outside)):
        for name in (path, path if path[0] == "<" else os.path.relpath(path)):
            code = compile(f"\n\ndef line_{number}(f):\n    return f()", name, "exec")
            names: dict[str, Any] = {}
            exec(code, names)
            assert is_internal(name) == (number < len(inside))
            made = names[f"line_{number}"](functools.partial(operator.add, weft.ones(2), 1))
            place = value_of(made).code.co_filename
            assert (place == name) == (number >= len(inside))
