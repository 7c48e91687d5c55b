"""What one small operation costs: recorded, differentiated, read in a loop."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.libraries import array, normal, realize
from benchmarks.measure import Context, Job, compare

OPERATIONS = 200


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
