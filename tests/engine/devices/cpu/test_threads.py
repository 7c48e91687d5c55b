"""The worker threads: settings, fork, and what they cost when idle."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import runtime_kernels
from runtime_kernels import add_program, addresses, kernels
from weft.engine.devices.cpu.executor import CpuExecutable
from weft.engine.devices.cpu.threads import get_num_threads, set_num_threads

HOUR = 3_600_000_000_000


@pytest.fixture(autouse=True)
def restore_threads():
    before = get_num_threads()
    yield
    set_num_threads(before)


def run_shared(steps: int = 20, threads: int = 2) -> bool:
    """Run a program on the worker threads; whether the values are right."""
    set_num_threads(threads)
    source = np.arange(50_000, dtype=np.float32)
    target = np.zeros_like(source)
    program = add_program(source.size, steps, work=HOUR)
    program.run(addresses(source, target))
    return bool((target == source + steps * (steps + 1) // 2).all())


def thread_count() -> int:
    return len(os.listdir("/proc/self/task"))


def in_child(body) -> int:
    """Fork, run `body` in the child, and give its exit status; a hanging child is killed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of forking beside other threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if body() else 2
        finally:
            os._exit(status)
    for _ in range(1000):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -9


def test_the_number_of_threads_is_kept_and_checked():
    set_num_threads(3)
    assert get_num_threads() == 3
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="pass 1 to run on the calling thread"):
            set_num_threads(wrong)
    for wrong in (1.5, True, "2", None):
        with pytest.raises(TypeError, match="an int"):
            set_num_threads(wrong)
    assert get_num_threads() == 3


@pytest.mark.parametrize("variable", ["WEFT_NUM_THREADS", "OMP_NUM_THREADS"])
def test_the_environment_sets_the_number(variable):
    program = (
        "from weft.engine.devices.cpu.threads import get_num_threads; print(get_num_threads())"
    )
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    environment[variable] = "7"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "7\n", done.stderr


def test_a_forked_child_runs_threaded_programs():
    assert run_shared()
    assert in_child(run_shared) == 0
    assert run_shared()


def test_a_child_of_a_child_too():
    assert run_shared()
    assert in_child(lambda: run_shared() and in_child(run_shared) == 0) == 0


FORKING = """
import os, signal, warnings, weft
warnings.simplefilter("ignore")
weft.set_num_threads(2)
x = weft.ones(20_000_000)
weft.realize(x)
children = []

def compute():
    y = x
    for step in range(12):
        y = (y + step).tanh().exp().sin()
    return y.sum().item()

def fork(*arguments):
    children.append(os.fork())

right = compute()
signal.signal(signal.SIGALRM, fork)
signal.setitimer(signal.ITIMER_REAL, 0.015)
found = [compute()]
while not children:
    found.append(compute())
signal.alarm(0)
if children[0] == 0:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(60)
found.append(compute())
status = 0 if found == [right] * len(found) else 3
if children[0] == 0:
    os._exit(status)
print(status, os.waitpid(children[0], 0)[1])
"""


def test_a_child_that_a_signal_handler_forks_while_a_program_runs_goes_on():
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "0 0\n", done.stderr


SLEEPING = FORKING.replace(
    "children.append(os.fork())",
    """for _ in range(20):  # some while workers go to sleep, holding what they wait with
        time.sleep(0.0002)
        child = os.fork()
        if child == 0:
            children[:] = [0]
            return
        children.append(child)""",
).replace("import os", "import os, time")


def test_children_that_are_forked_while_workers_go_to_sleep_go_on():
    done = subprocess.run(
        [sys.executable, "-c", SLEEPING], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "0 0\n", done.stderr


def test_the_child_starts_without_the_parents_threads():
    assert run_shared(threads=3)
    before = thread_count()
    assert before >= 3
    assert in_child(lambda: thread_count() == 1) == 0


def test_workers_are_kept_between_programs():
    assert run_shared()
    before = thread_count()
    assert all(run_shared() for _ in range(5))
    assert thread_count() == before


def test_one_thread_starts_no_workers():
    program = (
        "import os, sys; sys.path[:0] = sys.argv[1:]\n"
        "from test_threads import run_shared, thread_count\n"
        "before = thread_count()\n"
        "assert run_shared(threads=1)\n"
        "assert thread_count() == before, 'workers were started'\n"
    )
    folders = [str(Path(__file__).parent), str(Path(runtime_kernels.__file__).parent)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", program, *folders], env=environment, check=True)


def test_idle_workers_use_no_processor_time():
    """They look for work for a moment and then sleep, however late a busy machine lets them."""

    def used() -> float:
        start = time.process_time()
        time.sleep(0.5)
        return time.process_time() - start

    assert run_shared(threads=4)
    assert any(used() < 0.05 for _ in range(40))


def test_print_what_launching_and_sharing_cost(capsys):
    """Figures to look at; no timing is asserted."""
    array = np.ones(100_000, np.float32)
    slots = np.array(addresses(array), np.uint64)
    bare = CpuExecutable()
    for _ in range(10_000):
        bare.append(kernels()["nop"], [(0, 0), (0, 64)], [1, 2, 3], 1, 1, 50)
    shared = {}
    for threads in (1, 2):
        set_num_threads(threads)
        program = CpuExecutable()
        for _ in range(100):
            program.append(kernels()["add"], [(0, 0), (0, 0)], [0], array.size, 16, 30_000)
        shared[threads] = best_of(program, slots) / 100
    with capsys.disabled():
        print(
            f"\n  launch {best_of(bare, slots) / 10_000:.1f} ns; a kernel of "
            f"{shared[1] / 1000:.1f} us on 2 threads {shared[2] / 1000:.1f} us, so sharing costs "
            f"{(shared[2] - shared[1] / 2) / 1000:.2f} us"
        )


def best_of(program: CpuExecutable, slots: np.ndarray) -> float:
    """Nanoseconds of the fastest of twenty runs."""
    times = []
    for _ in range(20):
        start = time.perf_counter_ns()
        program.run(slots)
        times.append(time.perf_counter_ns() - start)
    return min(times)
