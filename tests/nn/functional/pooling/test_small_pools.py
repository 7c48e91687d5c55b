"""Pooling of few elements, whose maxima are found by one operation, is pooling of many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.nn.functional.pooling.windowed import LITTLE

KINDS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": (2, 3), "stride": [2, 1]},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 1, "padding": 1, "dilation": 2},
    {"kernel_size": 2, "stride": 2, "ceil_mode": True},
]


def values(count: int) -> Any:
    """Small whole numbers, so that many windows have equal elements, and some nans."""
    array = np.random.default_rng(0).integers(-2, 3, (count, 3, 7, 7)).astype(np.float32) + 0.5
    array[0, 0, 2, 3] = np.nan
    return array


@pytest.mark.parametrize("options", KINDS)
def test_maxima_of_one_image_are_those_of_many(options: dict[str, Any]) -> None:
    many = values(40)
    assert many[:1].size * 4 < LITTLE < many.size
    found = []
    for array in (many[:1], many):
        x = weft.tensor(array, requires_grad=True)
        pooled, places = weft.nn.functional.max_pool2d(x, return_indices=True, **options)
        with weft.no_grad():
            alone = weft.nn.functional.max_pool2d(x, **options)
        pooled.sum().backward()
        assert x.grad is not None
        found.append([t.detach().numpy()[:1] for t in (pooled, places, alone, x.grad)])
    for few, part in zip(*found, strict=True):
        np.testing.assert_array_equal(few, part)
    np.testing.assert_array_equal(found[0][0], found[0][2])


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize("count", [1, 40])
def test_pools_are_pytorchs(name: str, count: int) -> None:
    array = np.nan_to_num(values(count))
    for options in KINDS:
        if name == "avg_pool2d" and "dilation" in options:
            continue
        sides = []
        for lib in (torch, weft):
            x = lib.tensor(array, requires_grad=True)
            pooled = getattr(lib.nn.functional, name)(x, **options)
            (pooled * pooled).sum().backward()
            sides.append([pooled.detach().numpy(), x.grad.numpy()])
        for theirs, ours in zip(*sides, strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6)


def test_sizes_that_are_no_integers_are_refused_however_often_equal_ones_were_taken() -> None:
    x = weft.ones(1, 1, 4, 4)
    weft.nn.functional.max_pool2d(x, (2, 2))
    weft.nn.functional.max_pool2d(x, 2)
    for size in (2.0, (2.0, 2.0)):
        with pytest.raises(TypeError):
            weft.nn.functional.max_pool2d(x, size)


def test_places_outside_of_the_result_are_refused(lib: Any) -> None:
    places = lib.tensor([[[[0, 40], [3, 2]]]])
    with pytest.raises(
        RuntimeError, match="Found an invalid max index: 40 .output volumes are of size 4x4"
    ):
        lib.nn.functional.max_unpool2d(lib.ones(1, 1, 2, 2), places, 2)
    with pytest.raises(RuntimeError, match="non-zero size for non-batch"):
        lib.nn.functional.fractional_max_pool2d(lib.ones(1, 0, 4, 4), 2, output_size=2)
