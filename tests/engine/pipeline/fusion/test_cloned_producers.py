"""Values that each reader computes again instead of finding them in memory: the same bits, fewer bytes."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft
from weft.debug import stages
from weft.engine.runtime import executable_cache
from weft.testing.tuned import tuned

NEVER = 1 << 60


def least(nbytes: int) -> Any:
    """From how many bytes on values are computed in each reader."""
    return tuned("rematerialization", cloned_bytes=nbytes)


@pytest.fixture
def small_values() -> Iterator[None]:
    """Values of any size are worth it."""
    with least(1):
        yield


def drawn(*shape: int, seed: int = 0) -> Any:
    return weft.tensor(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def normed_step(shape: tuple[int, ...]) -> Any:
    """A step through a product, batch norm and relu, twice: gradients of all that is learnt."""
    weft.manual_seed(0)
    width = shape[1]
    layers = [weft.nn.Conv2d(width, width, 3, padding=1), weft.nn.BatchNorm2d(width)] * 2
    model = weft.nn.Sequential(*layers[:2], weft.nn.ReLU(), *layers[2:], weft.nn.ReLU())
    x = drawn(*shape)

    def step(read: bool = True) -> list[Any]:
        model.zero_grad()
        loss = (model(x) + x).square().mean()
        loss.backward()
        values = [loss.detach(), *[parameter.grad for parameter in model.parameters()]]
        return [value.numpy().tobytes() for value in values] if read else values

    return step


def text_of(step: Any, stage: str = "fuse") -> str:
    return str(stages(step)[stage])


@pytest.mark.parametrize("shape", [(2, 4, 6, 6), (3, 5, 9, 7), (1, 17, 4, 4)])
def test_bits_are_those_of_stored_values(small_values: None, shape: tuple[int, ...]) -> None:
    again = [normed_step(shape)() for _ in range(2)]
    with least(NEVER):
        assert normed_step(shape)() == again[0] == again[1]


def test_bits_do_not_depend_on_threads(small_values: None) -> None:
    before, found = weft.get_num_threads(), set()
    try:
        for threads in (1, 2, 3):
            weft.set_num_threads(threads)
            found.add(tuple(normed_step((4, 8, 16, 16))()))
    finally:
        weft.set_num_threads(before)
    assert len(found) == 1


def test_batch_norm_stores_neither_differences_nor_normalised_values(small_values: None) -> None:
    x, norm = drawn(4, 8, 6, 6).requires_grad_(), weft.nn.BatchNorm2d(8)
    weft.realize(x)

    def stored() -> int:
        """How many arrays of the input's shape a step stores."""

        def step() -> Any:
            x.grad = None
            y = norm(x).relu()
            y.sum().backward()
            return y

        lines = text_of(step).splitlines()
        return sum(line.partition("->")[2].count("[4, 8, 6, 6]") for line in lines)

    assert stored() == 2  # what relu gives, and the gradient of the input
    with least(NEVER):  # also differences, normalised values, and these times a cotangent
        assert stored() == 5


def shifted(nbytes: int, size: int = 64) -> str:
    """What is stored where a difference from a mean is read beside the sum of its squares, and once more."""
    x = drawn(size, size)
    weft.realize(x)
    with least(nbytes):
        return text_of(lambda: ((c := x - x.mean()).square().sum(), c * c.square().mean()))


def test_from_how_many_bytes_on() -> None:
    assert "sub[64, 64]" in shifted(64 * 64 * 4 + 1)
    assert "sub[64, 64]" not in shifted(64 * 64 * 4)


@pytest.mark.parametrize("kind", ["kept", "of two arrays", "slow", "read as a whole"])
def test_what_stays_in_memory(small_values: None, kind: str) -> None:
    x, other = drawn(32, 48), drawn(32, 48, seed=1)
    weft.realize(x, other)
    held = []

    def step() -> Any:
        if kind == "of two arrays":
            value = x - other
        elif kind == "slow":
            value = x / other.mean()
        else:
            value = x - x.mean()
        if kind == "kept":
            held.append(value)
        square = value.square().mean()
        if kind == "read as a whole":
            return value.t() @ value * square
        return value * square

    name = "div" if kind == "slow" else "sub"
    assert f"{name}[32, 48]" in text_of(step)
    assert len(held) <= 1


def test_an_interrupted_program_goes_on(small_values: None) -> None:
    """Wherever it stops, what has not run finds what it reads."""

    class Stop(BaseException):
        pass

    def stop(*_: Any) -> None:
        raise Stop

    step, stops = normed_step((16, 16, 16, 16)), 0
    start = time.perf_counter()
    expected = step()
    seconds = time.perf_counter() - start  # kernels are compiled in it: later runs are shorter
    previous = signal.signal(signal.SIGALRM, stop)
    try:
        for attempt in range(40):
            executable_cache.clear()
            pending = step(False)
            try:
                signal.setitimer(signal.ITIMER_REAL, seconds * (attempt % 10 + 1) / 2000)
                weft.realize(*pending)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Stop:
                stops += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert [value.numpy().tobytes() for value in pending] == expected
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert stops


def test_an_array_that_is_updated_in_place_is_read_before(small_values: None) -> None:
    """Twins read the array; an update of its memory waits for them."""
    x = drawn(32, 48)
    expected = x.numpy().astype("float64").copy()
    with weft.no_grad():
        value = x - x.mean()
        scale = value.square().mean()
        x += 1.0
        result = value * scale
        weft.realize(result, x)
    away = expected - expected.mean()
    np.testing.assert_allclose(result.numpy(), away * (away**2).mean(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(x.numpy(), expected + 1, rtol=1e-6)
