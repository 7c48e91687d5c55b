"""Known programs: what is recognised runs without scheduling and gives what scheduling gives; what differs in anything
that the program depends on is not recognised."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.config import config
from weft.engine.runtime import executable_cache


@pytest.fixture(autouse=True)
def _nothing_known(known_soon: None) -> None:
    weft.realize()
    executable_cache.clear()


def hits(function: Callable[[], Any]) -> int:
    """How many known programs a call runs."""
    before = executable_cache.counters["hits"]
    function()
    return executable_cache.counters["hits"] - before


def learn(function: Callable[[], Any], times: int = 4) -> None:
    """Run until the program is stored, which a new kernel may put off."""
    for _ in range(times):
        function()


def test_a_program_is_known_when_it_comes_again() -> None:
    x = weft.arange(5.0)

    def run() -> Any:
        return (x * 2 + 1).sum().item()

    learn(run)
    assert hits(run) == 1
    assert run() == 25.0


def test_numbers_are_arguments() -> None:
    x = weft.arange(3.0)

    def run(a: Any, b: Any) -> Any:
        return (x * a + x * b).tolist()

    learn(lambda: run(2.0, 3.0))
    assert hits(lambda: run(4.0, 0.5)) == 1
    assert run(4.0, 0.5) == [0, 4.5, 9]
    assert run(-0.0, 1e300)[2] == math.inf
    assert math.isnan(run(math.nan, 1.0)[1])


def test_equal_numbers_are_one_value_and_different_ones_two() -> None:
    x = weft.arange(1.0, 4.0)

    def run(a: Any, b: Any) -> Any:
        return ((x + a) * (x + b)).tolist()

    for pair in [(1.0, 1.0), (1.0, 2.0), (math.nan, math.nan), (0.0, -0.0), (1, 1.0), (True, 1)]:
        learn(lambda pair=pair: run(*pair))  # type: ignore[misc]
    assert run(3.0, 3.0) == [16, 25, 36]
    assert run(3.0, 5.0) == [24, 35, 48]
    assert run(3, 3.0) == [16, 25, 36]
    assert run(3, 5.0) == [24, 35, 48]
    assert math.isnan(run(math.nan, 2.0)[0])


@pytest.mark.parametrize("count", [500, 1500])
def test_many_numbers(count: int) -> None:
    """More than the table of numbers has places for."""
    x = weft.ones(1)

    def run(numbers: list[float]) -> float:
        total = x
        for number in numbers:
            total = total * number + 1
        return total.item()

    def expected(numbers: list[float]) -> float:
        total = 1.0
        for number in numbers:
            total = float(weft.tensor(total * number)) + 1
        return total

    different = [1 / (2 + i) for i in range(count)]
    twice = [different[i % (count // 2)] for i in range(count)]
    for _ in range(4):
        run(different)
        run(twice)
    other = [number / 2 for number in different]
    assert run(other) == pytest.approx(expected(other), rel=1e-5)
    assert run(twice) == pytest.approx(expected(twice), rel=1e-5)


def test_shapes_parameters_and_liveness_are_told_apart() -> None:
    x, y = weft.arange(6.0).reshape(2, 3), weft.arange(12.0).reshape(4, 3)

    def sums(value: Any, axis: int) -> Any:
        return (value * 2).sum(axis).tolist()

    for _ in range(4):
        sums(x, 0), sums(x, 1), sums(y, 0), sums(y, 1)
    assert sums(x, 0) == [6, 10, 14]
    assert sums(x, 1) == [6, 24]
    assert sums(y, 0) == [36, 44, 52]
    assert sums(y, 1) == [6, 24, 42, 60]

    def halves(keep: bool) -> Any:
        half = x * 0.5
        total = half.sum().item()
        return (total, half.tolist()) if keep else total

    for _ in range(4):
        halves(True), halves(False)
    assert halves(True) == (7.5, [[0, 0.5, 1], [1.5, 2, 2.5]])
    assert halves(False) == 7.5


def test_the_layout_of_values_from_outside() -> None:
    x = weft.arange(6.0).reshape(2, 3)
    straight, turned = x + 0, (x.T + 0).T

    def run(value: Any) -> Any:
        return (value * 2).tolist()

    for _ in range(4):
        run(straight), run(turned)
    assert run(straight) == run(turned) == [[0, 2, 4], [6, 8, 10]]


def test_a_program_with_batches_is_known_too() -> None:
    rows = [weft.tensor([float(i), 1.0]) for i in range(4)]

    def run() -> Any:
        return weft.stack([(row * 3).exp().sum() for row in rows]).sum().item()

    learn(run)
    expected = run()
    assert hits(run) == 1
    config.batch = False
    try:
        assert run() == expected
    finally:
        config.batch = True


def test_batching_is_part_of_the_name() -> None:
    """A program learned without batches is not used where batches may be formed."""
    rows = [weft.tensor([float(i), 1.0]) for i in range(4)]

    def run() -> Any:
        parts = [row * 3 for row in rows]
        weft.realize()
        return parts

    config.batch = False
    try:
        learn(run)
        assert hits(run) == 1
    finally:
        config.batch = True
    assert hits(run) == 0


def test_gradients_after_a_known_forward_program() -> None:
    w = weft.tensor([1.0, -2.0], requires_grad=True)

    def run() -> Any:
        w.grad = None
        loss = (w * 3).square().sum()
        value = loss.item()
        loss.backward()
        assert w.grad is not None
        return value, w.grad.tolist()

    results = [run() for _ in range(6)]
    assert results == [(45.0, [18.0, -36.0])] * 6


def test_what_is_pending_on_another_thread_s_tape() -> None:
    x = weft.arange(3.0)

    def run(factor: float) -> Any:
        made: list[Any] = []
        thread = threading.Thread(target=lambda: made.append(x * factor))
        thread.start()
        thread.join()
        return (made[0] + 1).tolist()

    for factor in (2.0, 2.0, 2.0, 2.0, 3.0):
        assert run(factor) == [1, 1 + factor, 1 + 2 * factor]

    def run_otherwise() -> Any:
        other = x.exp()
        weft.realize()
        return (other + 1).tolist()

    assert run_otherwise()[0] == 2.0


@pytest.mark.parametrize(
    "dtype",
    [
        weft.bool,
        weft.uint8,
        weft.int8,
        weft.int16,
        weft.int32,
        weft.int64,
        weft.float16,
        weft.bfloat16,
        weft.float32,
        weft.float64,
        weft.complex64,
        weft.complex128,
    ],
    ids=str,
)
def test_numbers_are_read_as_numpy_reads_them(dtype: Any) -> None:
    x = weft.tensor([1, 0], dtype=dtype)
    for index in range(2):
        number = x[index].item()
        assert number == x.tolist()[index]
        assert type(number) is type(x.tolist()[index])
        assert bool(x[index]) == (index == 0)
    assert (x[0] + 0).item() == 1


def test_gradients_of_steps_that_were_put_together() -> None:
    """The derivatives of a chain form batches at the flush; the program is known by its form without them."""
    w = weft.arange(1.0, 5.0) / 8
    x = weft.tensor([0.1, 0.2, 0.3, 0.4], requires_grad=True)

    def run() -> Any:
        x.grad = None
        y = x
        for _ in range(12):
            y = (y * w).tanh() + x
        y.sum().backward()
        assert x.grad is not None
        return x.grad.tolist()

    results = [run() for _ in range(6)]
    assert hits(run) == 1
    assert results == [results[0]] * 6


def test_a_read_before_backward_keeps_its_batches() -> None:
    w = weft.tensor([[0.5, 1.0], [1.5, -1.0]], requires_grad=True)
    rows = [weft.tensor([float(i), 1.0]) for i in range(4)]

    def run() -> Any:
        w.grad = None
        losses = [(w @ row).tanh().sum() for row in rows]
        value = losses[0].item()
        sum(losses[1:], losses[0]).backward()
        assert w.grad is not None
        return value, w.grad.tolist()

    results = [run() for _ in range(6)]
    assert results == [results[0]] * 6


@pytest.mark.parametrize("form", ["slice", "row", "row of a row"])
def test_parts_of_a_value_are_known_wherever_they_lie(form: str) -> None:
    """The next rows of a data set at each step: one program for all of them, with their values and gradients."""
    data = weft.arange(120.0).reshape(20, 2, 3).clone().contiguous()
    weight = weft.tensor([[0.5], [-1.0], [2.0]], requires_grad=True)
    weft.realize(data, weight)

    def step(n: int) -> list[Any]:
        row = data[n]
        x = {"slice": data[n : n + 4], "row": row, "row of a row": row[n % 2 : n % 2 + 1]}[form]
        loss = (x @ weight).sin().square().mean()
        weight.grad = None
        loss.backward()
        assert weight.grad is not None
        return [loss.item(), weight.grad.tolist()]

    for n in (0, 7, 3, 11, 5, 1):
        step(n)
    for n in (8, 13, 2, 4):
        assert hits(lambda n=n: step(n)) == 1
        loss, grad = step(n)
        config.cache = False
        try:
            assert step(n) == [loss, grad]
        finally:
            config.cache = True


def test_a_part_that_is_read_before_its_value_is_written_to() -> None:
    """What takes a value's memory over must not reach the part that was read."""
    for n in (0, 3, 1, 2, 3, 0):
        rows = weft.arange(12.0).reshape(4, 3) * 1
        weft.realize(rows)
        part = rows[n] + 1
        rows[n] = -1.0
        assert part.tolist() == [3.0 * n + 1, 3.0 * n + 2, 3.0 * n + 3]
        assert rows[n].tolist() == [-1.0] * 3
