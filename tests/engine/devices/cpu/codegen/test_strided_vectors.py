"""Elements that stand two apart are read and written by vectors, and what lies between them stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

import weft

WIDTHS = (1, 2, 7, 15, 16, 17, 31, 32, 33, 64, 65, 130)
DTYPES = ("float32", "float64", "int64", "int16", "int8", "bool", "complex64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_reading_and_writing(width: int, dtype: str) -> None:
    """The last element read is the last in memory where `first` is 1."""
    values = np.random.default_rng(width).integers(0, 2, (3, 2 * width)).astype(dtype)
    for first in (0, 1):
        x = weft.from_numpy(values.copy())
        new = weft.from_numpy(1 - values[:, :width] if dtype != "bool" else ~values[:, :width])
        np.testing.assert_array_equal((x[:, first::2] * 1).numpy(), values[:, first::2] * 1)
        expected = values.copy()
        expected[:, first::2] = new.numpy()
        x[:, first::2] = new
        np.testing.assert_array_equal(x.numpy(), expected)
