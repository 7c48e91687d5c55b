"""Without a budget: a program that comes again takes an arena, with the same bits; programs share its block."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.config import config
from weft.engine.devices.cpu import pool
from weft.engine.pipeline import memory_plan
from weft.engine.pipeline.budget import economy
from weft.engine.runtime import executable_cache

nn = weft.nn
pytestmark = pytest.mark.skipif(
    bool(config.guard) or not config.cache,
    reason="each value has memory of its own, or none is known",
)


@contextmanager
def of_any_size() -> Iterator[None]:
    """Small programs have arenas, too, and compute again what costs up to half their time."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LEAST_BYTES", "LEAST_BYTES_OF_A_KERNEL"):
            patch.setattr(economy, name, 0)
        patch.setattr(economy, "MOST_MORE_TIME", 0.5)
        patch.setattr(economy, "MOST_TIME_OF_SEARCH", 1e9)
        yield


def trained(seed: int, layers: int, width: int, dropout: float, steps: int) -> list[bytes]:
    """The bits of losses, gradients and parameters of some steps."""
    executable_cache.clear()
    weft.manual_seed(seed)
    model = nn.Sequential(
        *[
            part
            for _ in range(layers)
            for part in (
                nn.Linear(width, width),
                nn.GELU(),
                nn.Dropout(dropout),
                nn.LayerNorm(width),
            )
        ]
    )
    optimizer = weft.optim.AdamW(model.parameters(), lr=1e-2)
    x = weft.randn(64, width)
    losses: list[Any] = []
    for _ in range(steps):
        optimizer.zero_grad()
        losses.append(model(x).square().mean())
        losses[-1].backward()
        optimizer.step()
    values = [*losses, *model.parameters(), *[one.grad for one in model.parameters()]]
    return [value.detach().numpy().tobytes() for value in values]


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 99),
    layers=st.integers(1, 5),
    width=st.sampled_from([8, 32]),
    dropout=st.sampled_from([0.0, 0.25]),
)
def test_the_bits_are_those_of_fresh_memory(seed, layers, width, dropout):
    with of_any_size():
        arenas = trained(seed, layers, width, dropout, 4)
    before = memory_plan.set_reuse(False)
    try:
        assert trained(seed, layers, width, dropout, 4) == arenas
    finally:
        memory_plan.set_reuse(before)


def perceptron_step() -> Any:
    """A step of a perceptron whose activations are most of its memory."""
    weft.manual_seed(0)
    model = nn.Sequential(*[part for _ in range(8) for part in (nn.Linear(64, 64), nn.GELU())])
    x = weft.randn(4096, 64)

    def step() -> None:
        model.zero_grad()
        model(x).square().mean().backward()
        weft.realize()

    return step


def peak_of(step: Any) -> int:
    """The bytes that a step adds to what is live."""
    gc.collect()
    pool.reset_peak()
    live = pool.stats()["allocated"]
    step()
    return pool.stats()["peak"] - live


def test_a_program_that_comes_again_takes_less_memory():
    executable_cache.clear()
    step = perceptron_step()
    first = peak_of(step)
    step()
    assert peak_of(step) < 0.9 * first
