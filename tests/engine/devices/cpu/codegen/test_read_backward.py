"""Operands whose neighbours lie back to front, at every length and step: the elements that NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

DTYPES = ["float32", "float64", "int64", "int32", "int8", "bool", "complex64", "float16"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, 15, 16, 17, 40, 100])
def test_flipped_and_stepped(dtype: str, length: int) -> None:
    array = np.random.default_rng(length).integers(0, 100, (3, length)).astype(dtype)
    x = weft.tensor(array)
    flipped: list[tuple[Any, Any]] = [
        (x.flip(1), array[:, ::-1]),
        (x.flip(0, 1), array[::-1, ::-1]),
        (x[:, ::2].flip(1), array[:, ::2][:, ::-1]),
        (x.flip(1)[:, ::3], array[:, ::-1][:, ::3]),
    ]
    for found, expected in flipped:
        np.testing.assert_array_equal(found.contiguous().numpy(), expected)
        np.testing.assert_array_equal((found == found).numpy(), np.ones(expected.shape, bool))
    if dtype != "bool":
        np.testing.assert_array_equal((x.flip(1) + x).numpy(), array[:, ::-1] + array)
