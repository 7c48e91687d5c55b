"""Coordinates of elements that are not 0, and the first places of little arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft.functional.places import LITTLE, coordinates, first_places, order_of


@pytest.mark.parametrize("shape", [(0,), (7,), (3, 5), (2, 0, 3), (4, 1, 3, 5), (1, 1)])
@pytest.mark.parametrize("dtype", ["bool", "float32", "int64", "complex64"])
def test_coordinates_are_numpys_and_pytorchs(shape: tuple[int, ...], dtype: str) -> None:
    array = (np.random.default_rng(1).integers(-1, 2, shape)).astype(dtype)
    np.testing.assert_array_equal(coordinates(array).T, np.argwhere(array))
    ours, theirs = weft.tensor(array), torch.tensor(array)
    found, expected = weft.nonzero(ours), torch.nonzero(theirs)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    if min(found.shape) > 1:
        assert found.stride() == expected.stride()
    for mine, other in zip(
        weft.nonzero(ours, as_tuple=True), torch.nonzero(theirs, as_tuple=True), strict=True
    ):
        np.testing.assert_array_equal(mine.numpy(), other.numpy())


@pytest.mark.parametrize("rows", [1, 4, 64])
@pytest.mark.parametrize("largest", [False, True])
def test_first_places_are_those_of_the_whole_order(rows: int, largest: bool) -> None:
    array = np.random.default_rng(2).integers(0, 9, (rows, 64)).astype(np.float32)
    array[0, 3] = np.nan
    assert array[:4].size < LITTLE < 64 * array.shape[1]
    whole = order_of(array, 1, largest)
    for count in (1, 5, 16, 40, 64):
        np.testing.assert_array_equal(first_places(array, 1, count, largest), whole[:, :count])
        by_columns = first_places(array.T, 0, count, largest)
        np.testing.assert_array_equal(by_columns, whole[:, :count].T)
    assert first_places(array, -1, 0, largest).shape == (rows, 0)
