"""`topk` looks for few elements before it puts them in order: what sorting all of them gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


def lines(kind: str, shape: tuple[int, ...], seed: int) -> Any:
    """Rows with many equal elements, zeros of both signs and nans."""
    made = np.random.default_rng(seed)
    array = made.integers(-3, 4, shape).astype(np.float32)
    if kind == "different":
        return made.permutation(array.size).reshape(shape).astype(np.float32)
    if kind == "nans":
        array[made.random(shape) < 0.4] = np.nan
    if kind == "zeros":
        array = np.where(array == 0, np.float32(-0.0), np.maximum(array, 0))
    return array


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["different", "equal", "nans", "zeros"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((40,), 0), ((3, 50), 1), ((50, 3), 0), ((2, 30, 4), 1)]
)
def test_the_first_of_a_sorted_dimension(
    kind: str, shape: tuple[int, ...], axis: int, largest: bool
) -> None:
    for seed in range(5):
        x = weft.tensor(lines(kind, shape, seed))
        values, indices = weft.sort(x, axis, descending=largest)
        for k in (0, 1, 3, shape[axis] // 4, shape[axis]):
            found = x.topk(k, axis, largest)
            np.testing.assert_array_equal(found.indices.numpy(), indices.narrow(axis, 0, k).numpy())
            np.testing.assert_array_equal(found.values.numpy(), values.narrow(axis, 0, k).numpy())
