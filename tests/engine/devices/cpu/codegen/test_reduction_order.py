"""Sums are added in the order that `reduction_order` defines, whatever kernel does it."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.engine.kernels import reduction_order
from weft.engine.kernels.reduction_order import BLOCK, LANES

LENGTHS = [1, LANES - 1, LANES + 3, 200, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17, 7 * BLOCK]


def drawn(*shape: int) -> np.ndarray:
    """Numbers whose sum depends on the order."""
    random = np.random.default_rng(shape[0])
    return (random.standard_normal(shape) * 10.0 ** random.integers(-4, 4, shape)).astype(
        np.float32
    )


def defined(values: np.ndarray) -> float:
    """Their sum by the definition."""
    return float(reduction_order.reduce(list(values), np.add, np.float32(0)))


@pytest.mark.parametrize("length", LENGTHS)
def test_all_elements(length: int) -> None:
    x = drawn(length)
    assert weft.tensor(x).sum().item() == defined(x)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("rows", [3, 40])
def test_rows(length: int, rows: int) -> None:
    x = drawn(rows, length)
    assert weft.tensor(x).sum(1).tolist() == [defined(row) for row in x]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("columns", [1, 5, 150])
def test_columns(length: int, columns: int) -> None:
    x = drawn(length, columns)
    assert weft.tensor(x).sum(0).tolist() == [defined(column) for column in x.T]


def test_what_several_axes_hold_is_counted_in_row_major_order() -> None:
    x = drawn(13, 5, 101)
    assert weft.tensor(x).sum((0, 2)).tolist() == [defined(x[:, i].ravel()) for i in range(5)]


def test_a_row_kernel_adds_in_the_same_order() -> None:
    x = drawn(32, 300)
    shares = weft.tensor(x) / weft.tensor(x).sum(1, keepdim=True)
    expected = [row / np.float32(defined(row)) for row in x]
    assert shares.tolist() == np.array(expected).tolist()


def test_maxima_and_their_indices_meet_in_the_same_order() -> None:
    x = np.repeat(drawn(50), 200)
    first = reduction_order.reduce(
        list(enumerate(x.tolist())),
        lambda a, b: max(a, b, key=lambda one: (one[1], -one[0])),
        (1 << 60, -np.inf),
    )
    assert weft.tensor(x).argmax().item() == first[0]
