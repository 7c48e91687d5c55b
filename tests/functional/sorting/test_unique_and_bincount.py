"""bincount, unique and unique_consecutive beside PyTorch: what is asked for, types, strides, no elements, errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

NUMBERS = np.random.default_rng(0).integers(0, 9, 60)
ARRAYS: dict[str, Any] = {
    "vector": NUMBERS,
    "matrix": NUMBERS.reshape(6, 10) % 2,
    "strided": NUMBERS.reshape(6, 10)[::2, 1::3],
    "floats": np.array([1.5, np.nan, -2.0, 1.5, np.inf, np.nan], np.float32),
    "truth": NUMBERS > 4,
    "bytes": NUMBERS.astype(np.uint8),
    "empty": NUMBERS[:0],
    "one": np.array(3),
}
WANTED = list(itertools.product((False, True), repeat=2))


def equal(ours: Any, theirs: Any) -> None:
    ours, theirs = (x if isinstance(x, tuple) else (x,) for x in (ours, theirs))
    assert len(ours) == len(theirs)
    for mine, expected in zip(ours, theirs, strict=True):
        assert mine.dtype is getattr(weft, str(expected.dtype).removeprefix("torch."))
        np.testing.assert_array_equal(mine.numpy(), expected.numpy())


@pytest.mark.parametrize(("inverse", "counts"), WANTED)
@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
@pytest.mark.parametrize("case", ARRAYS)
def test_distinct_elements(case: str, name: str, inverse: bool, counts: bool) -> None:
    ours, theirs = (
        getattr(lib, name)(lib.tensor(ARRAYS[case]), return_inverse=inverse, return_counts=counts)
        for lib in (weft, torch)
    )
    equal(ours, theirs)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(("inverse", "counts"), WANTED)
@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
def test_distinct_slices(name: str, inverse: bool, counts: bool, dim: int) -> None:
    ours, theirs = (
        getattr(lib, name)(
            lib.tensor(ARRAYS["matrix"]), return_inverse=inverse, return_counts=counts, dim=dim
        )
        for lib in (weft, torch)
    )
    equal(ours, theirs)


@pytest.mark.parametrize("minlength", [0, 4, 30])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16, np.int8, np.uint8])
def test_counts(dtype: Any, minlength: int) -> None:
    for array in (NUMBERS, NUMBERS[::-7].copy(), NUMBERS[:0], NUMBERS.reshape(6, 10)[:, 3]):
        ours, theirs = (
            lib.bincount(lib.tensor(array.astype(dtype)), minlength=minlength)
            for lib in (weft, torch)
        )
        equal(ours, theirs)


def test_counts_of_every_second_element() -> None:
    equal(weft.bincount(weft.tensor(NUMBERS)[::2]), torch.bincount(torch.tensor(NUMBERS)[::2]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_sums_of_weights(dtype: Any) -> None:
    weights = np.arange(60).astype(dtype)
    ours, theirs = (
        lib.bincount(lib.tensor(NUMBERS), lib.tensor(weights), minlength=12)
        for lib in (weft, torch)
    )
    equal(ours, theirs)


@pytest.mark.parametrize(
    "call",
    [
        lambda lib: lib.bincount(lib.tensor([1, -1])),
        lambda lib: lib.bincount(lib.tensor([1.0, 2.0])),
        lambda lib: lib.bincount(lib.tensor([[1, 2]])),
        lambda lib: lib.bincount(lib.tensor([1, 2]), lib.tensor([1.0])),
        lambda lib: lib.bincount(lib.tensor([1, 2]), minlength=-1),
    ],
)
def test_what_cannot_be_counted(call: Any) -> None:
    for lib in (weft, torch):
        with pytest.raises(RuntimeError):
            call(lib)
