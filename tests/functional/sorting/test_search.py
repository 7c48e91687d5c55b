"""searchsorted and bucketize beside PyTorch: few and many boundaries, types, nan, what is pending, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.engine.pipeline import driver

TYPES = ["float32", "float64", "float16", "int64", "int32", "uint8"]


def case(count: int, many: int, dtype: str, rows: tuple[int, ...] = ()) -> tuple[Any, Any]:
    """Boundaries in order and values, some of which equal boundaries."""
    numbers = np.random.default_rng(count)
    edges = np.sort((numbers.random((*rows, count)) * 200).astype(dtype), -1)
    values = (numbers.random((*rows, many)) * 220 - 5 * (dtype != "uint8")).astype(dtype)
    values[..., : min(count, many) // 2] = edges[..., : min(count, many) // 2]
    return edges, values


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [0, 1, 2, 7, 128, 129, 255, 256, 257, 1000])
def test_one_vector_of_boundaries(count: int, dtype: str, right: bool) -> None:
    edges, values = case(count, 300, dtype)
    found = weft.searchsorted(weft.tensor(edges), weft.tensor(values), right=right)
    expected = torch.searchsorted(torch.tensor(edges), torch.tensor(values), right=right)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    buckets = weft.bucketize(weft.tensor(values), weft.tensor(edges), right=right, out_int32=True)
    assert buckets.dtype is weft.int32
    np.testing.assert_array_equal(buckets.numpy(), expected.numpy())


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("count", [0, 5, 300])
@pytest.mark.parametrize("many", [0, 1, 17])
def test_boundaries_by_row(count: int, many: int, right: bool) -> None:
    edges, values = case(count, many, "float32", (3, 2))
    found = weft.searchsorted(weft.tensor(edges), weft.tensor(values), right=right)
    expected = torch.searchsorted(torch.tensor(edges), torch.tensor(values), right=right)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("count", [6, 200])
def test_nan_and_infinities(count: int) -> None:
    edges, values = case(count, 9, "float32")
    edges[0], edges[-1] = -np.inf, np.inf
    values[:3] = np.nan, np.inf, -np.inf
    for right in (False, True):
        found = weft.bucketize(weft.tensor(values), weft.tensor(edges), right=right)
        expected = torch.bucketize(torch.tensor(values), torch.tensor(edges), right=right)
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("number", [2, 2.0, 1.5, -1, 9.0])
@pytest.mark.parametrize("edges", [[1, 2, 3], [1.0, 2.0, 3.0]])
def test_a_number_is_looked_for(edges: list[float], number: float) -> None:
    found = weft.searchsorted(weft.tensor(edges), number)
    expected = torch.searchsorted(torch.tensor(edges), number)
    assert (found.item(), tuple(found.shape)) == (expected.item(), tuple(expected.shape))


def test_types_meet_as_in_arithmetic() -> None:
    found = weft.searchsorted(weft.tensor([1, 2, 3]), weft.tensor([1.5, 3.0]))
    expected = torch.searchsorted(torch.tensor([1, 2, 3]), torch.tensor([1.5, 3.0]))
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("count", [10, 1000])
def test_pending_values_are_not_read(count: int) -> None:
    edges, values = (weft.tensor(x) for x in case(count, 50, "float32"))
    pending = values * 2
    before = driver.counters["flushes"]
    found = weft.searchsorted(edges + 1, pending)
    assert driver.counters["flushes"] == before
    expected = np.searchsorted(edges.numpy() + np.float32(1), values.numpy() * np.float32(2))
    np.testing.assert_array_equal(found.numpy(), expected)


def test_boundaries_in_the_order_of_a_sorter() -> None:
    edges, values = case(40, 30, "float32")
    mixed = np.random.default_rng(1).permutation(edges)
    sorter = mixed.argsort()
    found = weft.searchsorted(weft.tensor(mixed), weft.tensor(values), sorter=weft.tensor(sorter))
    np.testing.assert_array_equal(found.numpy(), np.searchsorted(mixed, values, sorter=sorter))
    with pytest.raises(RuntimeError, match="sorter index out of range"):
        weft.searchsorted(weft.tensor(mixed), weft.tensor(values), sorter=weft.full((40,), 40))
