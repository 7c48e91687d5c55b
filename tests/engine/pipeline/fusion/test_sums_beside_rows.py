"""Kernels that make sums over rows while they have each row: values are PyTorch's, on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from oracle import torch

SHAPES = [(128, 5), (129, 33), (300, 1000), (130, 1), (2, 70, 40), (5, 3, 31, 17)]


def gradients(library, arrays):
    """Of layer_norm with weights, then cross_entropy: loss, and gradients of input, weight and bias."""
    x, weight, bias, target = (library.tensor(array) for array in arrays)
    for leaf in (x, weight, bias):
        leaf.requires_grad_()
    functional = library.nn.functional
    moved = x.movedim(-1, 0).contiguous().movedim(0, -1) * 1.5 if x.ndim == 4 else x
    normed = functional.layer_norm(moved, (x.shape[-1],), weight, bias)
    loss = functional.cross_entropy(normed.reshape(-1, x.shape[-1]), target)
    loss.backward()
    return [value.detach().numpy() for value in (loss, x.grad, weight.grad, bias.grad)]


def numbers(shape):
    rng = np.random.default_rng(len(shape))
    x = rng.standard_normal(shape).astype("float32")
    weight, bias = rng.standard_normal((2, shape[-1])).astype("float32")
    return x, weight, bias, rng.integers(0, shape[-1], x.size // shape[-1])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_beside_rows(shape):
    arrays, before = numbers(shape), weft.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            weft.set_num_threads(threads)
            found.append([gradients(weft, arrays) for _ in range(3)][-1])
    finally:
        weft.set_num_threads(before)
    for one, two, expected in zip(*found, gradients(torch, arrays), strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one, expected, rtol=2e-4, atol=2e-6)
