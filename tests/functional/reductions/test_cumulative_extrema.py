"""Running extrema and random orders: against definitions written out and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch


def running(line: Any, smaller: bool) -> list[int]:
    """The places of the running extremum, one element after the other."""
    best = 0
    places = []
    for place, value in enumerate(line):
        level = value <= line[best] if smaller else value >= line[best]
        if value != value or (level and line[best] == line[best]):
            best = place
        places.append(best)
    return places


@pytest.mark.parametrize("smaller", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(4, 9, 5), (8, 12, 70)])
def test_running_extrema_stand_at_the_last_of_equals(
    shape: tuple[int, ...], axis: int, smaller: bool
) -> None:
    made = np.random.default_rng(axis)
    array = made.integers(-3, 4, shape).astype(np.float32)
    array[array == 0] = -0.0
    array[made.random(array.shape) < 0.1] = np.nan
    expected = np.apply_along_axis(running, axis, array, smaller)
    found = (weft.cummin if smaller else weft.cummax)(weft.tensor(array), axis)
    np.testing.assert_array_equal(found.indices.numpy(), expected)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
@pytest.mark.parametrize(("shape", "dim"), [((6, 7), 0), ((6, 7), -1), ((0, 3), 0), ((3, 0), 0)])
def test_running_extrema_against_pytorch(
    name: str, dtype: Any, shape: tuple[int, ...], dim: int
) -> None:
    array = np.random.default_rng(0).integers(0, 5, shape).astype(dtype)
    found = getattr(weft.tensor(array), name)(dim)
    expected = getattr(torch.tensor(array), name)(dim)
    np.testing.assert_array_equal(found.values.numpy(), expected.values.numpy())
    np.testing.assert_array_equal(found.indices.numpy(), expected.indices.numpy())


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000, 20_000])
def test_a_random_order_is_that_of_its_keys(count: int) -> None:
    bits = weft.Generator().manual_seed(4)
    upper, lower = (bits.bits((count,)).numpy() for _ in range(2))
    found = weft.randperm(count, generator=weft.Generator().manual_seed(4)).numpy()
    np.testing.assert_array_equal(found, np.argsort((upper >> 1 << 32) + lower, kind="stable"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_long_inner_product_is_a_sum(dtype: Any) -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 100_000)).astype(dtype)
    x, y = weft.tensor(a, requires_grad=True), weft.tensor(b, requires_grad=True)
    product = x @ y
    exact = float(np.dot(a.astype(np.longdouble), b.astype(np.longdouble)))
    assert abs(product.item() - exact) <= 1e-4 * (dtype == np.float32) + 1e-10 * 400
    product.backward()
    np.testing.assert_array_equal(x.grad.numpy(), b)  # type: ignore[union-attr]
    np.testing.assert_array_equal(y.grad.numpy(), a)  # type: ignore[union-attr]
    rows = weft.func.vmap(lambda row: row @ y)(weft.stack([x, x * 2]))
    assert rows[0].item() == product.item()
