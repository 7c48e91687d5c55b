"""Programs: what they compute, patching, threads, interruption and resuming."""

from __future__ import annotations

import contextlib
import ctypes
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_kernels import add_program, addresses, flush_kernels, kernels
from weft.engine.devices.cpu.executor import CpuExecutable
from weft.engine.devices.cpu.threads import get_num_threads, set_num_threads
from weft.engine.devices.trace import Recording
from weft.errors import VerificationError

HOUR = 3_600_000_000_000  # ns of claimed work: always shared out


@pytest.fixture(autouse=True)
def restore_threads():
    before = get_num_threads()
    yield
    set_num_threads(before)


def test_a_program_runs_its_launches_in_order():
    source, target = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    program = add_program(1000, steps=3)
    assert len(program) == 3
    assert program.run(addresses(source, target)) == 3
    assert (target == source + 6).all()


def test_slots_may_be_a_list_a_tuple_or_a_buffer():
    source, target = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    program = add_program(10)
    slots = addresses(source, target)
    for given_slots in (slots, tuple(slots), np.array(slots, np.uint64), np.array(slots)):
        target[:] = 0
        program.run(given_slots)
        assert (target == source + 1).all()


def test_offsets_are_bytes():
    source, target = np.arange(20, dtype=np.float32), np.zeros(20, np.float32)
    program = CpuExecutable()
    program.append(kernels()["add"], [(0, 40), (1, 4)], [0], 5)
    program.run(addresses(source, target))
    assert (target[1:6] == source[10:15]).all() and target[0] == target[6] == 0


def test_patching_changes_the_next_run():
    source, target = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    program = add_program(100)
    slots = addresses(source, target)
    program.patch_argument(program.first_argument(0), 41)
    program.run(slots)
    assert (target == source + 41).all()
    program.set_arguments(0, np.array([7]))
    program.patch_units(0, 50)
    program.run(slots)
    assert (target[:50] == source[:50] + 7).all() and (target[50:] == source[50:] + 41).all()
    program.set_arguments(0, [1])
    program.patch_pointer(program.first_pointer(0), 1, 0)
    program.run(slots)
    assert (target[:50] == source[:50] + 8).all()


def test_what_does_not_fit_is_refused():
    program = add_program(10)
    address = addresses(np.zeros(10, np.float32))[0]
    with pytest.raises(VerificationError, match="2 slots"):
        program.run([address])
    with pytest.raises(VerificationError, match="no address in slot 1"):
        program.run([address, 0])
    with pytest.raises(VerificationError, match="8-byte items"):
        program.run(np.zeros(2, np.int32))
    with pytest.raises(VerificationError, match="argument 5"):
        program.patch_argument(5, 0)
    with pytest.raises(VerificationError, match="arguments 0:2"):
        program.set_arguments(0, [1, 2])
    with pytest.raises(VerificationError, match="instruction 1"):
        program.patch_units(1, 3)
    with pytest.raises(ValueError, match="function address"):
        program.append(0, [], [], 1)
    with pytest.raises(ValueError, match="grain >= 1"):
        program.append(kernels()["nop"], [], [], 1, 0)
    with pytest.raises(IndexError):
        program.first_argument(1)


@given(
    units=st.integers(0, 5000),
    grain_size=st.integers(1, 700),
    threads=st.integers(1, 5),
    work=st.integers(0, 10**6),
)
def test_every_unit_is_done_once_on_any_number_of_threads(units, grain_size, threads, work):
    set_num_threads(threads)
    array = np.zeros(units + 1, np.float32)
    program = CpuExecutable()
    program.append(kernels()["add"], [(0, 0), (0, 0)], [1], units, grain_size, work)
    assert program.run(addresses(array)) == 1
    assert (array[:units] == 1).all() and array[units] == 0


def test_threads_give_the_same_bits():
    source = np.random.default_rng(0).random(200_001, dtype=np.float32)
    results = []
    for threads in (1, 2, 4):
        set_num_threads(threads)
        target = np.zeros_like(source)
        program = add_program(source.size, steps=5, kernel="slow", work=HOUR)
        program.run(addresses(source, target))
        results.append(target.tobytes())
    assert results[0] == results[1] == results[2]


def test_many_shared_launches_in_a_row():
    """Late wakers must not touch the next job: thousands of short jobs, more threads than cores."""
    set_num_threads(4)
    array = np.zeros(4000, np.float32)
    program = CpuExecutable()
    for _ in range(2000):
        program.append(kernels()["add"], [(0, 0), (0, 0)], [1], array.size, 8, HOUR)
    assert program.run(addresses(array)) == 2000
    assert (array == 2000).all()


def test_python_threads_run_programs_at_once():
    set_num_threads(2)
    program = add_program(20_000, steps=50, work=HOUR)
    failures = []

    def work():
        for _ in range(20):
            source = np.arange(20_000, dtype=np.float32)
            target = np.zeros_like(source)
            program.run(addresses(source, target))
            if not (target == source + 1275).all():
                failures.append("wrong values")

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
    assert program.running == 0


def test_other_python_threads_go_on_meanwhile():
    """Another thread sees the program running; it may take several runs until a busy machine lets it."""
    set_num_threads(1)
    array = np.ones(400_000, np.float32)  # some tens of milliseconds
    program = add_program(array.size, steps=4, kernel="slow")
    seen, over = threading.Event(), threading.Event()

    def look():
        while not (over.is_set() or seen.is_set()):
            if program.running:
                seen.set()

    looking = threading.Thread(target=look)
    looking.start()
    for _ in range(100):
        program.run(addresses(array, array))
        if seen.is_set():
            break
    over.set()
    looking.join()
    assert seen.is_set()


@contextlib.contextmanager
def _signal_when(is_time: Callable[[], object], number: int = signal.SIGINT) -> Iterator[None]:
    """Raise a signal once, some milliseconds on, in a moment at which Python handles signals and `is_time()`: however
    busy the machine is, it comes while a program runs, and never to the test itself."""

    def look(*_: object) -> None:
        if is_time():
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.raise_signal(number)

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 0.03, 0.003)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _long_program(array: np.ndarray) -> CpuExecutable:
    """Many short launches that count up `array`, several hundred milliseconds of them."""
    program = CpuExecutable()
    for _ in range(20_000):
        program.append(kernels()["add"], [(0, 0), (0, 0)], [1], array.size, 16)
    return program


@pytest.mark.parametrize("threads", [1, 2])
def test_control_c_stops_between_kernels_and_the_program_resumes(threads):
    set_num_threads(threads)
    array = np.zeros(100_000, np.float32)
    program = _long_program(array)
    with _signal_when(lambda: program.running):
        index = program.run(addresses(array))
    assert 0 < index < len(program)
    assert isinstance(program.take_interrupt(), KeyboardInterrupt)
    assert program.interrupt is None
    assert (array == index).all()
    assert program.run(addresses(array), index, uninterruptible=True) == len(program)
    assert (array == len(program)).all()
    assert program.interrupt is None


@pytest.mark.parametrize("threads", [1, 2])
def test_control_c_stops_in_the_middle_of_a_long_kernel(threads):
    set_num_threads(threads)
    source = np.ones(8_000_000, np.float32)
    target = np.zeros_like(source)
    program = add_program(source.size, steps=1, kernel="slow", work=250 * source.size)
    with _signal_when(lambda: program.running):
        assert program.run(addresses(source, target)) == 0
    assert isinstance(program.take_interrupt(), KeyboardInterrupt)
    assert program.interrupt is None
    done = int(np.count_nonzero(target))
    assert 0 < done < target.size
    assert target[:done].all()
    assert program.run(addresses(source, target)) == 1
    assert (target == target[0]).all()


def test_slices_run_every_unit_once():
    """Whatever the estimate of the work says."""
    for units, grain_size, work in (
        (1, 1, HOUR),
        (1000, 7, HOUR),
        (3_000_000, 16, 10**7),
        (5, 8, 10**9),
    ):
        array = np.zeros(units, np.float32)
        program = CpuExecutable()
        program.append(kernels()["add"], [(0, 0), (0, 0)], [1], units, grain_size, work)
        for times in (1, 2, 3):  # by the estimate, then by what the run before took
            assert program.run(addresses(array)) == 1
            assert (array == times).all()


@pytest.mark.parametrize("claimed", [10, 250, 10_000], ids=lambda work: f"{work} ns")
def test_slices_are_as_long_as_the_run_before_tells(claimed):
    """Signals are seen in the middle whether the estimate (the units take about 250 ns) is too low or too high."""
    set_num_threads(1)
    source = np.ones(1_600_000, np.float32)
    target = np.zeros_like(source)
    program = add_program(source.size, kernel="slow", work=claimed * source.size)
    assert program.run(addresses(source, target)) == 1
    target[:] = 0
    with _signal_when(lambda: program.running):
        assert program.run(addresses(source, target)) == 0
    assert 0 < int(np.count_nonzero(target)) < target.size


def test_a_handler_that_does_not_raise_lets_the_program_go_on():
    array = np.zeros(100_000, np.float32)
    program = _long_program(array)
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(program.running))
    try:
        with _signal_when(lambda: program.running, signal.SIGUSR1):
            assert program.run(addresses(array)) == len(program)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [1]
    assert program.interrupt is None


def test_uninterruptible_runs_to_the_end_and_the_signal_waits():
    array = np.zeros(100_000, np.float32)
    program = _long_program(array)
    index = 0
    with pytest.raises(KeyboardInterrupt), _signal_when(lambda: array[0] > 0):
        index = program.run(addresses(array), 0, True)
        time.sleep(60)  # the signal is delivered here at the latest
    assert (array == len(program)).all()
    assert index in (0, len(program))


def test_a_running_program_cannot_be_changed():
    set_num_threads(1)
    array = np.zeros(100_000, np.float32)
    program = _long_program(array)
    refused = []

    def change(*_):
        with pytest.raises(VerificationError, match="running program"):
            program.patch_argument(0, 5)
        refused.append(True)

    before = signal.signal(signal.SIGUSR1, change)
    try:
        with _signal_when(lambda: program.running, signal.SIGUSR1):
            assert program.run(addresses(array)) == len(program)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert refused
    program.patch_argument(0, 5)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="sets MXCSR")
@pytest.mark.parametrize("threads", [1, 2])
def test_flush_to_zero_set_by_others_does_not_reach_kernels(threads):
    """The caller's mode is put aside for the run and restored; workers start from the default."""
    set_num_threads(threads)
    array = np.full(100_000, 1e-40, np.float32)
    program = CpuExecutable()
    program.append(kernels()["add"], [(0, 0), (0, 0)], [0], array.size, 16, HOUR)
    mode = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
    mode(flush_kernels()["flush"])(None, None, None, None)
    try:
        program.run(addresses(array))
        flushed = float(np.float32(1e-40) + np.float32(0)) == 0
    finally:
        mode(flush_kernels()["normal"])(None, None, None, None)
    assert flushed, "the caller's mode was not restored"
    assert (array == np.float32(1e-40)).all()


def test_an_event_is_recorded_per_instruction():
    array = np.ones(20_000, np.float32)
    program = CpuExecutable()
    program.append(kernels()["nop"], [(0, 0)], [], 1)
    program.append(kernels()["slow"], [(0, 0), (0, 0)], [3], array.size)
    recording = Recording()
    program.run(addresses(array))
    events = [event for event in recording.close() if event[0] == "launch"]
    assert [event[4] for event in events] == [0, 1]
    assert events[0][1] <= events[0][2] == events[1][1] < events[1][2]
    program.run(addresses(array))
    assert recording.close() == []


def test_an_empty_program_runs():
    assert CpuExecutable().run([]) == 0


def test_an_interrupt_is_that_of_its_run():
    """A handler runs the same program, which another handler stops: the run outside goes on to its end."""
    array, other = np.zeros(100_000, np.float32), np.zeros(100_000, np.float32)
    program = _long_program(array)
    inner = []

    def within(*_):
        with _signal_when(lambda: program.running > 1):
            inner.append((program.run(addresses(other)), program.interrupt))

    before = signal.signal(signal.SIGUSR1, within)
    try:
        with _signal_when(lambda: program.running, signal.SIGUSR1):
            assert program.run(addresses(array)) == len(program)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert program.interrupt is None
    assert (array == len(program)).all()
    [(stopped, raised)] = inner
    assert 0 < stopped < len(program) and isinstance(raised, KeyboardInterrupt)
