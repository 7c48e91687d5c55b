"""`weft.map`: a loop over examples, in common batches although values are read; everything else as in the loop."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from counting_flushes import collatz, flushes_of

import weft
from live_nodes import settled_count
from weft.engine.frontend.node_factory import count_live_nodes
from weft.engine.ir.tape import tape
from weft.engine.pipeline import driver


def test_results_are_those_of_the_loop_in_order() -> None:
    numbers = [weft.tensor(n) for n in range(1, 40)]
    assert weft.map(collatz, numbers) == [collatz(x) for x in numbers]


def test_a_read_costs_one_flush_for_all() -> None:
    numbers = [weft.tensor(27) for _ in range(50)]
    _, one = flushes_of(lambda: collatz(numbers[0]))
    _, all_of_them = flushes_of(lambda: weft.map(collatz, numbers))
    assert one == all_of_them


def test_waiting_work_is_one_batch(capsys: pytest.CaptureFixture[str]) -> None:
    weight = weft.randn(6, 6)

    def function(x: Any) -> float:
        return (x @ weight).tanh().sum().item()  # type: ignore[no-any-return]

    examples = [weft.randn(6) for _ in range(20)]
    with weft.explaining("schedule"):
        weft.map(function, examples)
    text = capsys.readouterr().err
    assert text.count("matmul x 20") == 1 and text.count("tanh x 20") == 1


def test_what_lags_behind_joins_what_goes_ahead() -> None:
    def function(n: int) -> float:
        x = weft.tensor(float(n))
        for _ in range(n):
            x = x + 1
            x.item()
        return x.item()

    results, flushes = flushes_of(lambda: weft.map(function, range(10)))
    assert results == [2.0 * n for n in range(10)]
    assert flushes == 9


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x.sum() > 0),
        lambda x: float(x.sum()),
        lambda x: int(x.sum()),
        lambda x: x.tolist(),
        lambda x: x.numpy().sum(),
        lambda x: repr(x),
        lambda x: f"{x.sum():.3f}",
        lambda x: len(x.nonzero()),
        lambda x: [0, 1, 2, 3, 4][(x.sum() > 0).long()],
        lambda x: list(x.unbind())[0].item(),
        lambda x: weft.allclose(x, x),
        lambda x: x[x > 0].shape,
        lambda x: weft.realize(x),
        lambda x: weft.realize(),
        lambda x: weft.flush(),
        lambda x: 0.0 in x,
    ],
)
def test_every_way_to_read_waits(read: Callable[[Any], Any]) -> None:
    def function(n: int) -> Any:
        return read(weft.full((3,), n - 2.0) * 2)

    alone, one = flushes_of(lambda: function(3))
    together, flushes = flushes_of(lambda: weft.map(function, range(8)))
    assert str(together) == str([function(n) for n in range(8)]) and str(together[3]) == str(alone)
    assert flushes == one


@pytest.mark.parametrize("at_most", [1, 2, 3, 7, None])
def test_the_bound_changes_nothing(at_most: int | None) -> None:
    def function(n: int) -> Any:
        x = weft.rand(3)
        return [(x.sum() + n).item(), collatz(weft.tensor(n)), weft.rand(()).item()]

    weft.manual_seed(3)
    expected = weft.map(function, range(1, 20))
    weft.manual_seed(3)
    assert weft.map(function, range(1, 20), at_most=at_most) == expected


def test_the_bound_bounds() -> None:
    running: set[int] = set()
    most = 0

    def function(n: int) -> None:
        nonlocal most
        running.add(n)
        most = max(most, len(running))
        for _ in range(n % 4):
            (weft.tensor(n) + 1).item()
        running.remove(n)

    weft.map(function, range(60), at_most=5)
    assert most == 5


def test_generators_are_asked_when_there_is_room() -> None:
    asked: list[int] = []

    def examples() -> Iterator[int]:
        for n in range(10):
            asked.append(n)
            yield n

    seen: list[int] = []

    def function(n: int) -> int:
        seen.append(len(asked))
        return int((weft.tensor(n) * 2).item())

    assert weft.map(function, examples(), at_most=3) == [2 * n for n in range(10)]
    assert all(count <= n + 3 for n, count in enumerate(seen))


def test_nothing_to_map() -> None:
    assert weft.map(collatz, []) == []


def test_a_long_generator_takes_bounded_memory() -> None:
    class Example:
        pass

    alive: weakref.WeakSet[Example] = weakref.WeakSet()
    most = 0

    def examples() -> Iterator[Example]:
        for _ in range(3000):
            example = Example()
            alive.add(example)
            yield example

    def function(_: Example) -> float:
        nonlocal most
        most = max(most, len(alive))
        x = weft.ones(3) * 2
        return x.sum().item()

    gc.disable()
    try:
        assert weft.map(function, examples(), at_most=10) == [6.0] * 3000
    finally:
        gc.enable()
    assert most <= 12


def test_fibers_are_freed() -> None:
    held: list[Any] = []

    def function(n: int) -> float:
        class Local:
            pass

        local = Local()
        held.append(weakref.ref(local))
        return (weft.tensor(n) + 1).item() + (local is None)

    gc.disable()
    try:
        weft.map(function, range(5))
        with pytest.raises(ZeroDivisionError):
            weft.map(lambda n: function(n) / (n - 2), range(2, 5))
    finally:
        gc.enable()
    gc.collect()  # classes are cycles
    assert [ref() for ref in held] == [None] * len(held)


def test_nothing_is_left_for_the_collector() -> None:
    def function(n: int) -> float:
        x = weft.tensor(float(n), requires_grad=True)
        (x * x).backward()
        inner = weft.map(lambda m: (x + m).item(), range(2))
        return x.grad.item() + inner[1] + 1 / (n - 4)

    def step(count: int) -> None:
        with contextlib.suppress(ZeroDivisionError):
            weft.map(function, range(count))

    settled_count()
    for _ in range(2):
        step(3), step(8)
    gc.collect()
    gc.disable()
    try:
        before = count_live_nodes()
        for _ in range(5):
            step(3), step(8)
        assert count_live_nodes() == before and not tape().pending()
    finally:
        gc.enable()


# -- derivatives ---------------------------------------------------------------------------------------------------


def norm_until_small(weight: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        for _ in range(6):
            x = (x @ weight).tanh()
            if x.norm().item() < 0.7:
                break
        return x.square().sum()

    return function


def test_backward_outside() -> None:
    weft.manual_seed(0)
    weight = weft.randn(4, 4, dtype=weft.float64, requires_grad=True)
    examples = [weft.randn(4, dtype=weft.float64) for _ in range(12)]
    function = norm_until_small(weight)
    losses = weft.map(function, examples)
    weft.stack(losses).sum().backward()
    found, weight.grad = weight.grad, None
    plain = [function(x) for x in examples]
    weft.stack(plain).sum().backward()
    assert [x.item() for x in losses] == [x.item() for x in plain]
    np.testing.assert_allclose(found, weight.grad, rtol=1e-12)


def test_backward_inside_accumulates_and_batches() -> None:
    weft.manual_seed(0)
    weight = weft.randn(4, 4, dtype=weft.float64, requires_grad=True)
    examples = [weft.randn(4, dtype=weft.float64) for _ in range(12)]

    def function(x: Any) -> Any:
        loss = (x @ weight).tanh().sum()
        loss.backward()
        return loss.item()

    kernels = driver.counters["kernels"]
    weft.map(function, examples)
    found = weight.grad.clone()
    together = driver.counters["kernels"] - kernels
    weight.grad = None
    for x in examples:
        function(x)
    np.testing.assert_allclose(found, weight.grad, rtol=1e-12)
    assert together < driver.counters["kernels"] - kernels - together


def test_gradients_that_are_read_inside() -> None:
    def descend(start: float) -> float:
        x = weft.tensor(start, dtype=weft.float64, requires_grad=True)
        while True:
            (gradient,) = weft.autograd.grad((x - 2) ** 2, x)
            if gradient.abs().item() < 1e-3:
                return x.item()
            x = (x - 0.3 * gradient).detach().requires_grad_()

    starts = [0.0, 1.0, 5.0, -3.0]
    assert weft.map(descend, starts) == [descend(s) for s in starts]


def test_a_model_of_its_own_may_be_trained_in_each_example() -> None:
    def train(slope: float) -> float:
        w = weft.zeros(1, dtype=weft.float64, requires_grad=True)
        optimizer = weft.optim.SGD([w], lr=0.1)
        for _ in range(8):
            optimizer.zero_grad()
            (w - slope).square().sum().backward()
            optimizer.step()
        return w.item()

    slopes = [0.5, -1.0, 2.0]
    found, flushes = flushes_of(lambda: weft.map(train, slopes))
    _, one = flushes_of(lambda: train(1.0))
    assert found == [train(s) for s in slopes]
    # nobody holds the initial value any more when all examples run: it runs with the first step
    assert flushes == one - 1


def test_hooks_read_where_they_stand() -> None:
    seen: list[float] = []

    def function(x: float) -> float:
        leaf = weft.tensor(x, requires_grad=True)
        y = leaf * 2
        y.register_hook(lambda g: seen.append((g * x).item()))
        y.square().backward()
        return leaf.grad.item()

    assert weft.map(function, [1.0, 2.0, 3.0]) == [8.0, 16.0, 24.0]
    assert seen == [4.0, 16.0, 36.0]


def test_transforms_inside() -> None:
    def function(x: Any) -> tuple[float, float, list[float]]:
        slope = weft.func.grad(lambda v: (v * v).sum() * (2 if v.sum().item() > 0 else 3))(x)
        _, tangent = weft.func.jvp(lambda v: (v**3).sum(), (x,), (weft.ones_like(x),))
        return slope.sum().item(), tangent.item(), weft.func.vmap(lambda v: v * 2)(x).tolist()

    examples = [weft.tensor([1.0, -3.0]), weft.tensor([2.0, 5.0]), weft.tensor([0.5, 0.25])]
    assert weft.map(function, examples) == [function(x) for x in examples]


def scores_by_round(weight: Any, rounds: int) -> Callable[[Any], Any]:
    """A product for each round, of inputs that do not depend on the weight."""

    def function(x: Any) -> Any:
        found = []
        for _ in range(rounds):
            found.append((x @ weight).tanh().sum())
            x = x.roll(1) if found[-1].item() > 0 else -x
        return weft.stack(found).sum()

    return function


def test_a_walk_puts_the_rounds_together(capsys: pytest.CaptureFixture[str]) -> None:
    weight = weft.randn(4, 3, requires_grad=True)
    losses = weft.map(scores_by_round(weight, 6), [weft.randn(4) for _ in range(8)])
    weft.stack(losses).sum().backward()
    with weft.explaining("schedule"):
        weight.grad.tolist()
    text = capsys.readouterr().err
    assert sum(": matmul" in line for line in text.splitlines() if line.startswith("k")) == 1


@pytest.mark.parametrize("chosen", [slice(None), slice(1, 2), slice(2, 7)])
def test_rounds_together_are_rounds_alone(chosen: slice) -> None:
    weft.manual_seed(4)
    weight = weft.randn(4, 3, dtype=weft.float64, requires_grad=True)
    examples = [weft.randn(4, dtype=weft.float64).requires_grad_() for _ in range(8)]
    function = scores_by_round(weight, 5)
    found = []
    for losses in (weft.map(function, examples), [function(x) for x in examples]):
        for _ in range(2):
            weft.stack(losses[chosen]).sum().backward(retain_graph=True)
        losses[3].backward()
        found.append([weight.grad, *(x.grad for x in examples if x.grad is not None)])
        for leaf in (weight, *examples):
            leaf.grad = None
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
