"""Windows whose elements are walked one after the other: ties, signs of zeros, nans, infinities, small and large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from oracle import torch

OPTIONS: tuple[dict[str, Any], ...] = (
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (4, 5), "stride": 1},
    {"kernel_size": 1, "stride": 2},
    {"kernel_size": 2, "dilation": 2},
)


def odd_numbers(shape: tuple[int, ...], dtype: str) -> Any:
    """Few different values, so that most windows have ties."""
    choices = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf])
    return choices[np.random.default_rng(0).integers(0, 6, shape)].astype(dtype)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_maxima_of_ties(options: dict[str, Any], dtype: str) -> None:
    """Values have the same bits with and without a gradient; places are PyTorch's, the first."""
    values = odd_numbers((2, 3, 8, 10), dtype)
    plain = F.max_pool2d(weft.tensor(values), **options).numpy()
    x = weft.tensor(values, requires_grad=True)
    result, places = F.max_pool2d(x, **options, return_indices=True)
    theirs = torch.tensor(values, requires_grad=True)
    expected, indices = torch.nn.functional.max_pool2d(theirs, **options, return_indices=True)
    assert plain.tobytes() == F.max_pool2d(x, **options).detach().numpy().tobytes()
    assert plain.tobytes() == result.detach().numpy().tobytes()
    np.testing.assert_array_equal(plain, expected.detach().numpy())
    np.testing.assert_array_equal(places.numpy(), indices.numpy())
    result.sum().backward()
    expected.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), theirs.grad.numpy())


def test_a_nan_is_the_largest() -> None:
    values = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
    values[0, 0, 2, 3] = values[0, 0, 7, 7] = np.nan
    for options in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 1}, {"kernel_size": 5}):
        found = F.max_pool2d(weft.tensor(values), **options)
        expected = torch.nn.functional.max_pool2d(torch.tensor(values), **options)
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("dtype", ("int32", "uint8"))
def test_maxima_of_integers(dtype: str) -> None:
    values = np.random.default_rng(0).integers(0, 200, (2, 3, 7, 9)).astype(dtype)
    found = F.max_pool2d(weft.tensor(values), 3, 2, 1)
    expected = torch.nn.functional.max_pool2d(torch.tensor(values).float(), 3, 2, 1)
    np.testing.assert_array_equal(found.numpy(), expected.numpy().astype(dtype))


@pytest.mark.parametrize("kernel", (2, 3, 4, 5))
def test_means_are_those_of_one_example(kernel: int) -> None:
    """Bits with and without a gradient, alone and in a batch."""
    values = np.random.default_rng(0).normal(size=(3, 2, 12, 12)).astype(np.float32)
    for options in ({}, {"stride": 1, "padding": 1}):
        x = weft.tensor(values, requires_grad=True)
        whole = F.avg_pool2d(x, kernel, **options).detach().numpy()
        alone = [F.avg_pool2d(weft.tensor(values[i]), kernel, **options).numpy() for i in range(3)]
        assert whole.tobytes() == np.stack(alone).tobytes()
        expected = torch.nn.functional.avg_pool2d(torch.tensor(values), kernel, **options)
        np.testing.assert_allclose(whole, expected.numpy(), rtol=2e-6, atol=2e-7)


def test_a_cotangent_lies_as_the_input_does() -> None:
    """In PyTorch's order of memory, by the function that its graphs call."""
    found = []
    for lib in (weft, torch):
        x = lib.ones(1, 2, 3, 6).contiguous(memory_format=lib.channels_last)
        values, places = lib.nn.functional.max_pool2d(x, 3, 2, ceil_mode=True, return_indices=True)
        options = ([3, 3], [2, 2], [0, 0], [1, 1], True)
        made = lib.ops.aten.max_pool2d_with_indices_backward(values, x, *options, places)
        found.append((made.stride(), made.tolist()))
    assert found[0] == found[1]
