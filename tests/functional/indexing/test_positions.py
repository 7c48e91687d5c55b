"""Coordinates of elements that are not 0, and positions counted from the end."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from oracle import torch
from weft.functional.indexing.positions import coordinates, first_outside, positions


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


@pytest.mark.parametrize("rank", [1, 2, 3, 5])
def test_coordinates_of_strided_arrays_and_of_all_elements(rank: int) -> None:
    generator = np.random.default_rng(rank)
    shape = tuple(generator.integers(2, 9, rank))
    array = generator.standard_normal((*shape, 2))[..., 1].T
    array[array < 0] = -0.0
    array.flat[0] = np.nan
    np.testing.assert_array_equal(coordinates(array).T, np.argwhere(array))
    np.testing.assert_array_equal(
        coordinates(array == array[:1]).T, np.argwhere(array == array[:1])
    )
    every = np.ones(shape, bool)
    np.testing.assert_array_equal(coordinates(every).T, np.argwhere(every))


@pytest.mark.parametrize("size", [4, 100, 5000])
def test_what_holds_in_memory_of_others_is_any_byte_but_0(size: int) -> None:
    """Bytes that somebody else has written, or that are seen through a view, are true where they are not 0."""
    given = np.random.default_rng(size).integers(0, 5, size).astype(np.uint8)
    expected = np.flatnonzero(given)
    for mask in (
        weft.frombuffer(bytearray(given.tobytes()), dtype=weft.bool),
        weft.tensor(given).view(weft.bool),
    ):
        assert mask.nonzero()[:, 0].tolist() == expected.tolist()
        assert weft.arange(size)[mask].tolist() == expected.tolist()
        assert int(mask.sum()) == mask.tolist().count(True) == len(expected)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_positions_are_counted_from_the_end_up_to_the_first_outside(size: int) -> None:
    generator = np.random.default_rng(size)
    given = generator.integers(-size, size, (3, 5))
    counted = given.copy()
    assert first_outside(counted, size) == -1
    np.testing.assert_array_equal(counted, given % size)
    for outside in (size, -size - 1):
        wrong = given.copy()
        wrong.flat[[4, 9]] = outside
        assert first_outside(wrong, size) == 4


@pytest.mark.parametrize("shape", [(0,), (9,), (4, 6), (2, 3, 0), (3, 1, 4)])
def test_positions_of_a_mask_are_in_order_of_rows(shape: tuple[int, ...]) -> None:
    mask = np.random.default_rng(0).integers(0, 2, shape).astype(bool)
    assert positions(mask).tolist() == np.flatnonzero(mask).tolist()
    assert positions(mask.T).tolist() == np.flatnonzero(mask.T).tolist()
