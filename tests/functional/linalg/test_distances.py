"""Gradients of Euclidean distances of many points, which are two products, against PyTorch's and those of few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.functional.linalg.norms import FEW_POINTS

SHAPES = [
    ((40, 5), (30, 5)),
    ((FEW_POINTS, 3), (2, 3)),
    ((2, 40, 5), (30, 5)),
    ((3, 1, 4, 5), (2, 30, 5)),
    ((0, 5), (40, 5)),
    ((40, 0), (30, 0)),
]


def gradients(lib: Any, first: Any, second: Any, **options: Any) -> list[Any]:
    """Distances, and the gradients of a weighted sum of them."""
    x, y = (lib.tensor(a, requires_grad=True) for a in (first, second))
    found = lib.cdist(x, y, **options)
    weights = np.random.default_rng(1).standard_normal(tuple(found.shape))
    (found * lib.tensor(weights.astype(first.dtype))).sum().backward()
    return [t.detach().numpy() for t in (found, x.grad, y.grad)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("first", "second"), SHAPES)
def test_against_pytorch(first: tuple[int, ...], second: tuple[int, ...], dtype: str) -> None:
    made = np.random.default_rng(0)
    a, b = (made.standard_normal(shape).astype(dtype) for shape in (first, second))
    tolerance = 1e-3 if dtype == "float32" else 1e-9
    for mine, theirs in zip(gradients(weft, a, b), gradients(torch, a, b), strict=True):
        np.testing.assert_allclose(mine, theirs, tolerance, tolerance)


def test_equal_points_have_no_gradient_and_other_modes_the_same() -> None:
    made = np.random.default_rng(0)
    a, b = made.standard_normal((40, 3)), made.standard_normal((30, 3))
    b[:7] = a[:7]
    products = gradients(weft, a, b)
    apart = gradients(weft, a, b, compute_mode="donot_use_mm_for_euclid_dist")
    np.testing.assert_array_equal(products[0], apart[0])
    for one, other in zip(products, apart, strict=True):
        np.testing.assert_allclose(one, other, 1e-9, 1e-9)


def test_derivatives_of_both_orders_and_examples() -> None:
    made = np.random.default_rng(0)
    x, y = (weft.tensor(made.standard_normal(s), requires_grad=True) for s in ((26, 2), (3, 2)))
    assert weft.autograd.gradcheck(weft.cdist, (x, y))
    assert weft.autograd.gradgradcheck(weft.cdist, (x, y))
    many = weft.tensor(made.standard_normal((3, 30, 2)))
    mapped = weft.func.vmap(lambda a: weft.cdist(a, a * 2))(many)
    for example, found in zip(many, mapped, strict=True):
        np.testing.assert_array_equal(found.numpy(), weft.cdist(example, example * 2).numpy())
