"""`tolist` of one dimension reads the memory itself: the same numbers as through NumPy, wherever they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

DTYPES = [weft.float32, weft.float64, weft.float16, weft.int64, weft.int32, weft.uint8, weft.bool]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_and_their_types(dtype: Any) -> None:
    values = weft.tensor([0, 1, 2, 3, 250]).to(dtype)
    found, expected = values.tolist(), values.numpy().tolist()
    assert found == expected
    assert [type(number) for number in found] == [type(number) for number in expected]


def test_bfloat16_and_complex() -> None:
    assert weft.tensor([1.5, -2.0]).to(weft.bfloat16).tolist() == [1.5, -2.0]
    assert weft.tensor([1 + 2j, -3j]).tolist() == [1 + 2j, -3j]


@pytest.mark.parametrize(
    "region",
    [
        lambda whole: whole[3:7],
        lambda whole: whole[::3],
        lambda whole: whole.flip(0),
        lambda whole: whole.reshape(4, 3)[1],
        lambda whole: whole.reshape(4, 3)[:, 1],
        lambda whole: whole[5].expand(4),
        lambda whole: whole[4:4],
    ],
)
@pytest.mark.parametrize("pending", [True, False])
def test_regions_of_others(region: Any, pending: bool) -> None:
    whole = weft.arange(12, dtype=weft.float32) * 2
    if not pending:
        weft.realize(whole)
    assert region(whole).tolist() == region(whole).numpy().tolist()


def test_after_a_write_in_place() -> None:
    whole = weft.zeros(6)
    part = whole[2:5]
    part.add_(1)
    whole[3] = 7
    assert whole.tolist() == [0, 0, 1, 7, 1, 0]
    assert part.tolist() == [1, 7, 1]


def test_memory_of_numpy() -> None:
    array = np.arange(4.0)
    tensor = weft.from_numpy(array)
    array[1] = 9
    assert tensor.tolist() == [0, 9, 2, 3]


def test_through_a_lens() -> None:
    numbers = weft.tensor([1 + 2j, 3 - 4j])
    assert numbers.conj().tolist() == [1 - 2j, 3 + 4j]
    assert weft.view_as_real(numbers)[1].tolist() == [3, -4]
