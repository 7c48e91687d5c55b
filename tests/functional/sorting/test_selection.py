"""One place of an order: beside a full sort, for short and long rows, all types, equal elements and nan."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from oracle import torch
from weft.ops import OPS
from weft.ops.primitives import nth_place

TYPES = ["float32", "float64", "float16", "int64", "int32", "uint8", "bool"]
SHAPES = [((3, 1), 1), ((5, 16), 1), ((4, 65), 1), ((2, 4096), 1), ((2, 4097), 1), ((40, 3), 0)]


def elements(shape: tuple[int, ...], dtype: str, case: str) -> np.ndarray:
    """Numbers that are apart, many equal ones, or some or most of them nan."""
    numbers = np.random.default_rng(0)
    if dtype == "bool":
        return numbers.random(shape) > 0.5
    found = (numbers.standard_normal(shape) * (2 if case == "equal" else 300)).astype(dtype)
    found = np.round(found) if case == "equal" else found
    share = {"some nan": 0.1, "most nan": 0.9}.get(case, 0)
    if found.dtype.kind == "f":
        found[numbers.random(shape) < share] = np.nan
    return found


@pytest.mark.parametrize("case", ["apart", "equal", "some nan", "most nan"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_a_place_is_that_of_the_sort(
    shape: tuple[int, ...], axis: int, dtype: str, case: str
) -> None:
    x, length = elements(shape, dtype, case), shape[axis]
    for number in {0, (length - 1) // 2, length - 1}:
        for rule in (0, 1, 2) if x.dtype.kind == "f" else (0,):
            for first in (False, True):
                found = nth_place(weft.tensor(x), axis, number, rule, first)
                expected = OPS["nth_place"].reference(x, (axis, number, rule, first))
                np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 1000, 9000])
@pytest.mark.parametrize("case", ["apart", "some nan", "most nan"])
def test_medians_beside_pytorch(length: int, case: str) -> None:
    x = elements((3, length), "float32", case)
    ours, theirs = weft.tensor(x), torch.tensor(x)
    for name in ("median", "nanmedian"):
        for dim in (None, 0, 1):
            given = () if dim is None else (dim,)
            found, expected = (
                getattr(weft, name)(ours, *given),
                getattr(torch, name)(theirs, *given),
            )
            if dim is not None:
                found, expected = found[0], expected[0]
            np.testing.assert_array_equal(found.numpy(), expected.numpy())
    for k in {1, (length + 1) // 2, length}:
        found, expected = weft.kthvalue(ours, k).values, torch.kthvalue(theirs, k).values
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_a_median_of_pending_elements_reads_nothing() -> None:
    x = weft.rand(4, 50)
    found = (x * 2).nanmedian(1)
    np.testing.assert_array_equal(found.values.numpy(), np.sort(x.numpy() * 2, 1)[:, 24])
