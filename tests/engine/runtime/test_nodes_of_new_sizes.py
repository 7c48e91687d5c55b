"""Nodes of sizes that have never come are single calls of known kernels: no program is made for one."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
from weft import nn
from weft.config import config
from weft.engine.replay.cache import tally
from weft.ops.primitives import concat

F = nn.functional
_sizes = itertools.count(11)  # each is met once in this process


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """The same data in each run, and the interpreter as it is by default afterwards."""
    weft.manual_seed(0)
    yield
    config.interpreter = "novel"


def computed(value: Any) -> Any:
    """A value that is in memory."""
    value.data_ptr()
    return value


def normal(*shape: int) -> Any:
    return computed(weft.randn(*shape))


def rows(n: int, width: int = 12) -> Any:
    return normal(n, width)


def places(n: int, below: int) -> Any:
    return computed(weft.randint(0, below, (n,)))


def columns(n: int) -> Any:
    """A value whose memory is in another order."""
    return normal(12, n).T


CALLS: dict[str, tuple[Callable[[int], tuple[Any, ...]], Callable[..., Any]]] = {
    "mm": (lambda n: (rows(n), normal(12, 5)), weft.mm),
    "mm of columns": (lambda n: (columns(n), normal(5, 12).T), weft.mm),
    "vector by matrix": (lambda n: (normal(n), normal(n, 7)), weft.matmul),
    "linear": (lambda n: (rows(n), normal(5, 12), normal(5)), F.linear),
    "linear of more dimensions": (lambda n: (normal(2, n, 12), normal(5, 12)), F.linear),
    "bmm": (lambda n: (normal(3, n, 4), normal(3, 4, 5)), weft.bmm),
    "bmm by one": (lambda n: (normal(3, n, 4), normal(4, 5).expand(3, 4, 5)), weft.bmm),
    "product of integers": (
        lambda n: (places(n * 3, 9).reshape(n, 3), places(6, 9).reshape(3, 2)),
        weft.mm,
    ),
    "cat of rows": (lambda n: (rows(n), rows(3)), lambda x, y: weft.cat([x, y])),
    "cat of columns": (
        lambda n: (columns(n), rows(n, 3), rows(n)[:, 2:4]),
        lambda *parts: weft.cat(parts, 1),
    ),
    "cat with an empty one": (lambda n: (rows(n), rows(0)), lambda x, y: weft.cat([x, y])),
    "stack": (lambda n: (rows(n), columns(n)), lambda x, y: weft.stack([x, y], 1)),
    "layout": (lambda n: (columns(n),), lambda x: x.reshape(-1)),
    "rows by index": (lambda n: (rows(n), places(5, n)), lambda x, i: x[i]),
    "columns by index": (
        lambda n: (rows(n), places(5, 12)),
        lambda x, i: x.index_select(1, i),
    ),
    "gather": (
        lambda n: (rows(n), places(4 * n, 12).reshape(n, 4)),
        lambda x, i: x.gather(1, i),
    ),
    "index_add": (
        lambda n: (rows(n), places(7, n), rows(7)),
        lambda x, i, y: x.index_add(0, i, y),
    ),
    "part of a value that others see": (
        lambda n: (rows(n), rows(2)),
        lambda x, y: x.slice_scatter(y, 0, 1, 3),
    ),
    "logsumexp": (lambda n: (rows(n),), lambda x: weft.logsumexp(x, 1)),
    "cross entropy": (lambda n: (rows(n), places(n, 12)), F.cross_entropy),
    "layer norm": (lambda n: (rows(n),), lambda x: F.layer_norm(x, (12,))),
    "positions": (lambda n: (rows(n),), lambda x: weft.arange(len(x))),
    "lower triangle": (lambda n: (rows(n),), weft.tril),
    # work that is shared out among threads
    "large mm": (lambda n: (rows(300 + n, 400), normal(400, 300)), weft.mm),
    "large linear": (lambda n: (rows(900 + n, 64), normal(256, 64), normal(256)), F.linear),
    "large bmm": (lambda n: (normal(3, 200 + n, 90), normal(3, 90, 100)), weft.bmm),
    "large loop": (lambda n: (rows(700 + n, 300), normal(300)), weft.mul),
    "large loop of columns": (lambda n: (normal(700, 300 + n).T, rows(300 + n, 700)), weft.add),
    "large sums of rows": (lambda n: (rows(700 + n, 300),), lambda x: x.sum(1)),
    "large sums of columns": (lambda n: (rows(700 + n, 300),), lambda x: x.sum(0)),
    "large sum": (lambda n: (rows(900 + n, 1100),), weft.sum),
    "large cat of rows": (
        lambda n: (rows(200 + n, 400), rows(9, 400)),
        lambda x, y: weft.cat([x, y]),
    ),
    "large rows by index": (lambda n: (rows(n, 300), places(900, n)), lambda x, i: x[i]),
    "large gather": (
        lambda n: (rows(300 + n, 90), places(90 * (300 + n), 90).reshape(300 + n, 90)),
        lambda x, i: x.gather(1, i),
    ),
    "large layout": (lambda n: (normal(300, 500 + n).T,), lambda x: x.reshape(-1)),
}
LOOKED_UP = "logsumexp", "cross entropy", "layer norm", "cat with an empty one"


def run(name: str, size: int, interpreter: str) -> tuple[Any, dict[str, int]]:
    """The value of a call, and what it has added to the counts of nodes that are looked up alone."""
    weft.manual_seed(size)
    operands, function = CALLS[name]
    given = operands(size)
    before = dict(tally["nodes"])
    config.interpreter = interpreter
    result = computed(function(*given))
    return result.numpy().copy(), {k: n - before[k] for k, n in dict(tally["nodes"]).items()}


@pytest.mark.parametrize("name", CALLS)
def test_bits_are_those_of_a_program(name: str) -> None:
    """What a call computes has the bits of what the passes make of it."""
    for size in (next(_sizes), 7, 3):
        called, scheduled = run(name, size, "every")[0], run(name, size, "none")[0]
        assert called.shape == scheduled.shape
        assert called.tobytes() == scheduled.tobytes(), size


@pytest.mark.parametrize("name", [name for name in CALLS if name not in LOOKED_UP])
def test_a_new_size_needs_no_program(name: str) -> None:
    """Once its kernels are compiled, a node of a new size is not even looked up."""
    for _ in range(4):
        run(name, next(_sizes), "every")
    assert not any(run(name, next(_sizes), "every")[1].values())


def test_bits_do_not_depend_on_threads() -> None:
    before = weft.get_num_threads()
    for name in [name for name in CALLS if name.startswith("large")]:
        size, results = next(_sizes), []
        for threads in (1, 2, 3):
            weft.set_num_threads(threads)
            results.append(run(name, size, "every")[0].tobytes())
        weft.set_num_threads(before)
        assert results[0] == results[1] == results[2], name


def test_a_large_call_can_be_interrupted() -> None:
    """A signal handler that raises in the middle of it leaves the node pending, and its operands as they were."""
    config.interpreter = "every"
    x, y = rows(1500 + next(_sizes), 1500), rows(1500, 1500)
    weft.mm(x, y).sum().item()  # its kernels are there

    def handler(*_: Any) -> None:
        raise InterruptedError

    previous = signal.signal(signal.SIGALRM, handler)
    product = weft.mm(x * 2, y)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(InterruptedError):
            while True:
                weft.mm(x * 3, y).data_ptr()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    config.interpreter = "none"
    assert weft.equal(product, weft.mm(x * 2, y))


def test_values_that_others_see_stay() -> None:
    config.interpreter = "every"
    base = rows(next(_sizes))
    kept = base.clone()
    written = base.index_add(0, weft.tensor([1, 1]), weft.ones(2, 12))
    part = base.slice_scatter(weft.zeros(2, 12), 0, 0, 2)
    assert weft.equal(base, kept)
    assert weft.equal(written[1], kept[1] + 1 + 1)
    assert weft.equal(part[2:], kept[2:]) and not part[:2].any()


@pytest.mark.parametrize("index", ([0, 99], [99, 0]))
def test_an_index_that_does_not_hold_is_named(index: list[int]) -> None:
    config.interpreter = "every"
    x = rows(next(_sizes) % 50 + 11)
    with pytest.raises(IndexError, match="99"):
        weft.take_along_dim(x, weft.tensor(index)[:, None] * 1, 0).tolist()
    with pytest.raises(IndexError, match="99"):
        x.index_add(0, weft.tensor(index) * 1, weft.ones(2, 12)).tolist()


def test_a_concatenation_of_values_that_were_not_computed_fails_once() -> None:
    config.interpreter = "every"
    wrong = weft.take(weft.randn(4), weft.full((2,), 9) * 1)
    with pytest.raises(IndexError):
        concat((wrong, weft.ones(3)), 0).tolist()
