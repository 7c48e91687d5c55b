"""What lies idle at a program's peak is computed again: less memory, the same bits, also where a run is interrupted."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
from weft import nn
from weft.debug import stages
from weft.engine.devices.cpu import pool
from weft.engine.devices.cpu.tuning import TUNING
from weft.engine.runtime import executable_cache
from weft.testing.tuned import tuned

ROWS, WIDTH = 96, 128


@pytest.fixture(autouse=True)
def from_the_first_byte() -> Iterator[None]:
    """Programs of any size recompute what is as large as an activation here."""
    with tuned("rematerialization", peak_bytes=1, freed_bytes=4 * ROWS * WIDTH):
        yield


def keeping(run: Callable[[], Any]) -> Any:
    """The same with all values kept."""
    executable_cache.clear()
    try:
        with tuned("rematerialization", peak_bytes=1 << 60):
            return run()
    finally:
        executable_cache.clear()


class Block(nn.Module):
    """A norm and a perceptron beside each other's input, as in a transformer."""

    def __init__(self, activation: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.activation, self.dropout = activation, nn.Dropout(dropout)

    def forward(self, x: Any) -> Any:
        return x + self.down(self.dropout(self.activation(self.up(self.norm(x)))))


def perceptrons(activation: nn.Module, dropout: float = 0.0) -> nn.Sequential:
    weft.manual_seed(0)
    made = nn.Sequential(*[Block(activation, dropout) for _ in range(4)])
    weft.realize()
    return made


def images(_: Any = None) -> nn.Sequential:
    weft.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 16), (16, 16)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    made = nn.Sequential(*layers)
    weft.realize()
    return made


def derivatives(model: nn.Module, x: Any) -> list[Any]:
    """The output of a model and the gradients of its parameters, in one program."""
    weft.manual_seed(1)
    model.zero_grad()
    y = model(x)
    y.square().mean().backward()
    found = [y.detach(), *[parameter.grad for parameter in model.parameters()]]
    weft.realize(*found)
    return found


MODELS = {
    "gelu": lambda: (perceptrons(nn.GELU(approximate="tanh")), weft.randn(ROWS, WIDTH)),
    "erf": lambda: (perceptrons(nn.GELU()), weft.randn(2, ROWS // 2, WIDTH)),
    "silu": lambda: (perceptrons(nn.SiLU()), weft.randn(ROWS, WIDTH)),
    "dropout": lambda: (perceptrons(nn.ReLU(), 0.3), weft.randn(ROWS, WIDTH)),
    "images": lambda: (images(), weft.randn(8, 3, 16, 16)),
}


def peak_of(run: Callable[[], Any]) -> int:
    """The bytes that a known program needs beside what there is, in blocks of its own sizes: the pool hands out larger
    ones where it has them from other programs."""
    for _ in range(3):
        run()
    pool.trim()
    pool.reset_peak()
    before = pool.stats()["peak"]
    run()
    return int(pool.stats()["peak"] - before)


@pytest.mark.parametrize("name", MODELS)
def test_bits_are_the_same_and_memory_is_less(name: str) -> None:
    model, x = MODELS[name]()
    found = [derivatives(model, x) for _ in range(3)][-1]
    for ours, kept in zip(found, keeping(lambda: derivatives(model, x)), strict=True):
        assert weft.equal(ours, kept)
    ours = peak_of(lambda: derivatives(model, x))
    without = keeping(lambda: peak_of(lambda: derivatives(model, x)))
    if (
        name == "images"
    ):  # padded images are not kept: the peak is where one is made, and nothing idle lies there
        assert ours <= without
    else:
        assert ours < without


def test_what_is_computed_twice_is_seen_in_the_text() -> None:
    """gelu and its slope of the first block come again behind the peak, from what gelu was given."""
    model, x = MODELS["gelu"]()

    def step() -> Any:
        loss = model(x).square().mean()
        loss.backward()
        return loss

    def activations() -> int:
        return sum(" tanh " in line for line in stages(step)["fuse"].splitlines())

    with_twins = activations()
    assert keeping(activations) == 4 < with_twins <= 8


def test_small_programs_keep_their_values() -> None:
    model, x = MODELS["gelu"]()
    with tuned("rematerialization", peak_bytes=TUNING.rematerialization.peak_bytes):
        lines = stages(lambda: model(x).sum())["fuse"].splitlines()
    names = [line.split(": ")[1] for line in lines]
    assert sum("tanh" in line for line in names) == 4


def test_examples_in_batches_recompute_too() -> None:
    model, _ = MODELS["silu"]()
    weft.manual_seed(2)
    rows = [weft.randn(WIDTH) for _ in range(ROWS)]
    weft.realize()

    def step() -> list[Any]:
        model.zero_grad()
        weft.stack([model(row).square().mean() for row in rows]).mean().backward()
        found = [parameter.grad for parameter in model.parameters()]
        weft.realize(*found)
        return found

    for ours, kept in zip(step(), keeping(step), strict=True):
        assert weft.equal(ours, kept)


def test_an_interrupted_program_goes_on() -> None:
    """Wherever it stops, what has not run finds what it reads."""

    class Stop(BaseException):
        pass

    def stop(*_: Any) -> None:
        raise Stop

    model, x = perceptrons(nn.GELU(approximate="tanh")), weft.randn(64 * ROWS, WIDTH)
    start = time.perf_counter()
    expected = derivatives(model, x)
    seconds = time.perf_counter() - start  # the kernels are compiled in it: later runs are shorter
    stops, chance = 0, random.Random(0)
    previous = signal.signal(signal.SIGALRM, stop)
    try:
        for attempt in range(200):
            if attempt >= 12 and stops:
                break
            executable_cache.clear()
            model.zero_grad()
            y = model(x)
            y.square().mean().backward()
            found = [y.detach(), *[parameter.grad for parameter in model.parameters()]]
            try:
                signal.setitimer(
                    signal.ITIMER_REAL, chance.uniform(1e-4, seconds / 2 ** (attempt % 8))
                )
                weft.realize(*found)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Stop:
                stops += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            weft.realize(*found)
            for ours, kept in zip(found, expected, strict=True):
                assert weft.equal(ours, kept)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert stops
