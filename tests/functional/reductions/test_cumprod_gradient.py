"""The gradient of a cumulative product: a recurrence, solved by doubling."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from oracle import torch


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 8, 31, 64, 100])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("axis", [0, 1])
def test_gradient_is_pytorchs_with_zeros_too(size: int, dtype: str, axis: int) -> None:
    source = np.random.default_rng(size)
    array = source.standard_normal((3, size)).astype(dtype)
    if dtype == "complex128":
        array = array + 1j * source.standard_normal(array.shape)
    if size > 2:
        array[1, size // 2] = 0
        array[2, [0, size - 1]] = 0
    factor = source.standard_normal(array.shape).astype(dtype)
    if axis == 0:
        array, factor = array.T.copy(), factor.T.copy()
    grads = []
    for lib in (torch, weft):
        x = lib.tensor(array, requires_grad=True)
        x.cumprod(axis).backward(lib.tensor(factor))
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(grads[1], grads[0], 1e-9, 1e-12)


def test_derivatives_of_the_derivative() -> None:
    x = weft.tensor([0.5, 0.0, -1.5, 2.0, 0.7], dtype=weft.float64, requires_grad=True)
    assert weft.autograd.gradgradcheck(lambda x: x.cumprod(0), (x,))
