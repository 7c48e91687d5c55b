"""Progressions and triangles that are written at the call: the bits of what is recorded, and PyTorch's indices."""

import numpy as np
import pytest

import weft
from oracle import torch
from weft.tensor.creation import ranges
from weft.tensor.creation.progressions import MOST_WRITTEN, triangle_indices

NARROW = ((0, 1), (-1.5, 7.25), (3, 3), (0.1, 1e-3))
WIDE = ((1e30, -1e30), (-3e38, 3e38), (5, float("inf")))
FLOATS = ("float32", "float64", "float16", "bfloat16")
CASES = [
    *((bounds, dtype) for bounds in NARROW for dtype in (*FLOATS, "int32")),
    *((bounds, dtype) for bounds in WIDE for dtype in FLOATS),
]


@pytest.mark.parametrize(("bounds", "dtype"), CASES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_spaced_numbers_have_the_bits_of_recorded_ones(bounds, dtype, monkeypatch):
    """Whether the numbers are written or recorded cannot be seen in them."""
    for steps in (2, 3, 7, 64, 1001, MOST_WRITTEN, MOST_WRITTEN + 1):
        arguments = (*bounds, steps)
        kind = getattr(weft, dtype)
        written = weft.linspace(*arguments, dtype=kind), weft.logspace(*arguments, dtype=kind)
        with monkeypatch.context() as changed:
            changed.setattr(ranges, "MOST_WRITTEN", 0)
            recorded = weft.linspace(*arguments, dtype=kind), weft.logspace(*arguments, dtype=kind)
        for one, other in zip(written, recorded, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one.double().numpy(), other.double().numpy())


@pytest.mark.parametrize("offset", (-9, -2, 0, 1, 3, 9))
def test_triangles_are_pytorchs(offset):
    """Every offset, also those that leave nothing or everything."""
    for rows, columns in ((0, 0), (0, 3), (4, 0), (1, 1), (3, 5), (6, 2), (5000, 3), (2, 5000)):
        for name in ("tril_indices", "triu_indices"):
            made = getattr(weft, name)(rows, columns, offset)
            expected = getattr(torch, name)(rows, columns, offset)
            assert made.tolist() == expected.tolist()


def test_a_triangle_indexes_its_matrix():
    """The largest index is known, so that nobody has to look at them."""
    x = weft.arange(15.0).reshape(3, 5)
    rows, columns = weft.tril_indices(3, 5, -1)
    assert x[rows, columns].tolist() == [5.0, 10.0, 11.0]
    assert triangle_indices(2, 9, 0, False).max().item() == 8
    with pytest.raises(IndexError):
        weft.zeros(3)[columns + 2].tolist()


@pytest.mark.parametrize("name", ("tril_indices", "triu_indices"))
def test_a_triangle_that_does_not_fit_is_refused_at_once(name):
    """Nothing is counted row by row for it."""
    with pytest.raises((MemoryError, weft.OutOfMemoryError)):
        getattr(weft, name)(10**13, 3)
    assert getattr(weft, name)(4, 4, 2**62).numel() in (0, 32)
    assert getattr(weft, name)(4, 4, -(2**62)).numel() in (0, 32)
