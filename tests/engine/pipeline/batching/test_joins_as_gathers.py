"""A `cat` of many small parts is one gather: the same bits as a copy of each, one launch, whatever the parts are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.engine.devices.cpu.tuning import TUNING
from weft.engine.pipeline import driver

KINDS = [weft.float32, weft.float64, weft.bfloat16, weft.float16, weft.int64, weft.bool]


def launches_of(make: Any) -> tuple[Any, int]:
    """The value of what is recorded, and how many launches it took."""
    weft.realize()
    value = make()
    before = driver.counters["launches"]
    weft.realize(value)
    return value, driver.counters["launches"] - before


def parts_of(rows: list[int], width: int, dtype: Any = weft.float32) -> list[Any]:
    generator = weft.Generator().manual_seed(len(rows))
    parts = [weft.randn(count, width, generator=generator).mul(9).to(dtype) for count in rows]
    weft.realize(*parts)
    return parts


@pytest.mark.parametrize("dtype", KINDS)
def test_rows_of_many_parts_are_one_launch(dtype: Any) -> None:
    parts = parts_of([3, 1, 4, 2, 5, 2], 16, dtype)
    joined, launches = launches_of(lambda: weft.cat(parts))
    assert launches == 1
    assert joined.tolist() == [row for part in parts for row in part.tolist()]


@pytest.mark.parametrize("rows", [[2, 3], [1] * (TUNING.copies.fewest_parts - 1), [5, 0, 7, 1, 0]])
def test_few_and_empty_parts_are_joined_too(rows: list[int]) -> None:
    parts = parts_of(rows, 16)
    joined = weft.cat(parts)
    assert np.array_equal(joined.numpy(), np.concatenate([part.numpy() for part in parts]))


def test_zeros_keep_their_sign_and_nans_their_bits() -> None:
    row = weft.tensor([-0.0, 0.0, float("nan"), float("-inf")] * 8)
    parts = [row.clone() for _ in range(5)]
    joined = weft.cat(parts).numpy()
    assert joined.tobytes() == row.numpy().tobytes() * 5


def test_parts_may_be_regions_of_others() -> None:
    whole = weft.arange(40 * 16, dtype=weft.float32).reshape(40, 16)
    weft.realize(whole)
    slices = [whole[start : start + 3] for start in range(0, 30, 5)]
    joined, launches = launches_of(lambda: weft.cat(slices))
    assert launches == 1
    assert np.array_equal(joined.numpy(), np.concatenate([part.numpy() for part in slices]))


@pytest.mark.parametrize(
    "region",
    [
        lambda whole, start: whole[:, start : start + 3].T,
        lambda whole, start: whole[start : start + 6 : 2],
        lambda whole, start: whole[start].expand(3, 16),
    ],
)
def test_parts_with_gaps_are_copied(region: Any) -> None:
    whole = weft.arange(16 * 16, dtype=weft.float32).reshape(16, 16)
    parts = [region(whole, start) for start in range(6)]
    expected = np.concatenate([part.numpy() for part in parts])
    assert np.array_equal(weft.cat(parts).numpy(), expected)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_any_dimension(dim: int) -> None:
    parts = [weft.randn(1, 2, 24) for _ in range(6)]
    expected = np.concatenate([part.numpy() for part in parts], dim)
    assert np.array_equal(weft.cat(parts, dim).numpy(), expected)


def test_a_known_program_gathers_from_the_parts_of_its_own_run() -> None:
    for number in range(5):
        parts = [weft.full((2, 16), float(10 * number + place)) for place in range(6)]
        weft.realize(*parts)
        joined = weft.cat(parts).mul(2)
        expected = [[2.0 * (10 * number + place)] * 16 for place in range(6) for _ in range(2)]
        assert joined.tolist() == expected


def test_gradients_reach_the_parts() -> None:
    parts = [weft.randn(2, 16, requires_grad=True) for _ in range(6)]
    factors = weft.randn(12, 16)
    (weft.cat([part * 1 for part in parts]) * factors).sum().backward()
    for place, part in enumerate(parts):
        assert part.grad is not None
        assert part.grad.equal(factors[2 * place : 2 * place + 2])
