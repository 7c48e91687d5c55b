"""What one small operation costs: recorded, differentiated, read in a loop, launched."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import numpy as np

from benchmarks.libraries import array, normal, realize
from benchmarks.measure import Context, Job, Line, compare, settle, timed

OPERATIONS = 200
LAUNCHES = 10_000
LAUNCH_WANTED = 150e-9


def record(context: Context) -> None:
    """`a + b` on 16 numbers: Weft records it, PyTorch runs it."""
    for grad in (False, True):
        compare(
            context,
            f"a + b, {'with' if grad else 'no'} grad",
            partial(addition, grad=grad),
            target=10.0 if grad else None,
        )


def addition(lib: Any, grad: bool) -> Job:
    """A thousand additions whose results are dropped."""
    a, b = normal(lib, 16, seed=1), normal(lib, 16, seed=2)
    a.requires_grad_(grad)
    thousand = range(1000)

    def run() -> None:
        for _ in thousand:
            a + b  # noqa: B018 - what is measured

    return Job(run, lambda: [array(a + b)], lambda: realize(lib), per=1000)


def chain(context: Context) -> None:
    """200 operations on 16 numbers, forward, backward, both read."""
    compare(context, f"chain of {OPERATIONS} ops, per op", long_chain, target=6.0)


def long_chain(lib: Any) -> Job:
    """Time per operation, forward and backward together."""
    x = normal(lib, 16).requires_grad_()
    w = normal(lib, 16, seed=1)

    def run() -> Any:
        x.grad = None
        y = x
        for _ in range(OPERATIONS // 4):
            y = ((y * w).tanh() + x) * 0.9
        y.sum().backward()
        return y.tolist(), x.grad.tolist()

    return Job(run, run, per=OPERATIONS)


def loop(context: Context) -> None:
    """`while y.norm() < 1000: y = y * 1.05`: a value is read each turn."""
    compare(context, "while y.norm() < 1000, per turn", growing, target=2.0)


def growing(lib: Any) -> Job:
    """Time per turn of the loop."""
    x = normal(lib, 16)

    def run() -> Any:
        y, turns = x, 0
        while y.norm() < 1000:
            y = y * 1.05
            turns += 1
        return y, turns

    def result() -> Any:
        y, turns = run()
        return [turns, array(y)]

    return Job(run, result, per=run()[1])


SMALL_KERNEL = """
define void @add_one(ptr %pointers, ptr %arguments, i64 %begin, i64 %end) {
  %place = load ptr, ptr %pointers
  %old = load <16 x float>, ptr %place, align 4
  %one = insertelement <16 x float> zeroinitializer, float 1.0, i32 0
  %ones = shufflevector <16 x float> %one, <16 x float> poison, <16 x i32> zeroinitializer
  %new = fadd <16 x float> %old, %ones
  store <16 x float> %new, ptr %place, align 4
  ret void
}
"""


def launch(context: Context) -> None:
    """A kernel over 16 numbers in a program that is there already: the executor's loop alone, and all of a program that
    has one launch, called from Python. There is nothing like it in PyTorch."""
    if "weft" not in context.libraries:
        return
    many, one = (_seconds(context, launches(count)) for count in (LAUNCHES, 1))
    note = (
        f"wanted: {LAUNCH_WANTED * 1e9:.0f} ns; a program of one, from Python: {one * 1e9:.0f} ns"
    )
    context.report(Line("launch of a kernel over 16 numbers", {"weft": many}, "s", note))


def launches(count: int) -> Job:
    """A program of so many launches of one kernel, run ten thousand times over."""
    from weft.engine.devices.cpu.executor import CpuExecutable
    from weft.engine.devices.cpu.jit import KernelRequest, compiler

    library = compiler().batch([KernelRequest("benchmark", lambda: SMALL_KERNEL, ["add_one"])])[0]
    program = CpuExecutable()
    for _ in range(count):
        program.append(library["add_one"], [(0, 0)], [], 16, 16, 10, owner=library)
    numbers = np.zeros(16, np.float32)
    slots = memoryview(np.array([numbers.ctypes.data]))  # type: ignore[arg-type]

    def run() -> None:
        for _ in range(LAUNCHES // count):
            program.run(slots)

    run()
    if (numbers != LAUNCHES).any():
        raise AssertionError(f"{LAUNCHES} launches left {numbers}")
    return Job(run, lambda: [numbers], per=LAUNCHES)


def _seconds(context: Context, job: Job) -> float:
    """The median of as many turns as others get."""
    settle(job, limit=0.2)
    return statistics.median(timed(job, 10) / job.per for _ in range(context.repeats))
