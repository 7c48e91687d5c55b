"""lobpcg finds what eigh finds: of dense and sparse matrices, of one or a batch, with a second matrix, at both ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch


def symmetric(*shape: int) -> Any:
    values = np.random.default_rng(0).standard_normal(shape)
    return values @ values.swapaxes(-1, -2) + 0.1 * np.eye(shape[-1])


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("shape", [(12, 12), (3, 10, 10)])
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_pairs_are_pytorchs(kind: str, second: bool, shape: Any, largest: bool) -> None:
    weft.manual_seed(0)
    torch.manual_seed(0)
    a = symmetric(*shape).astype(kind)
    b = (np.eye(shape[-1]) + 0.1 * symmetric(*shape)).astype(kind)
    B = weft.tensor(b) if second else None
    values, vectors = weft.lobpcg(weft.tensor(a), 3, B, largest=largest)
    expected, _ = torch.lobpcg(
        torch.tensor(a), 3, torch.tensor(b) if second else None, largest=largest, niter=500
    )
    rough = 1e-3 if kind == "float32" else 1e-6
    outer = np.sort(expected.numpy(), -1)  # PyTorch gives them in any order
    np.testing.assert_allclose(np.sort(values.numpy(), -1), outer, rtol=rough, atol=rough)
    left = a @ vectors.numpy()
    right = (b @ vectors.numpy() if second else vectors.numpy()) * values.numpy()[..., None, :]
    np.testing.assert_allclose(left, right, atol=30 * rough * abs(a).max())


def test_sparse_matrices_and_preconditioners() -> None:
    weft.manual_seed(0)
    diagonal = np.arange(1.0, 41.0)
    a = np.diag(diagonal) + np.diag(np.full(39, 0.1), 1) + np.diag(np.full(39, 0.1), -1)
    inverse = weft.tensor(np.diag(1 / diagonal))
    for A in (weft.tensor(a), weft.tensor(a).to_sparse()):
        values, _ = weft.lobpcg(A, 2, iK=inverse, largest=False)
        np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(a)[:2], rtol=1e-8)


def test_gradients_are_those_of_eigh() -> None:
    a = symmetric(9, 9)
    found = []
    for lib in (weft, torch):
        x = lib.tensor(a, requires_grad=True)
        values, vectors = lib.lobpcg(x, 2)
        (values.sum() + vectors.square().square().sum()).backward()
        found.append((x.grad + x.grad.T).numpy())
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-5)


def test_small_matrices_are_refused() -> None:
    for lib in (weft, torch):
        with pytest.raises(ValueError, match="is not applicable when the number of A rows"):
            lib.lobpcg(lib.eye(5), 2)


@pytest.mark.parametrize("largest", [True, False])
def test_the_gradient_of_both_triangles(largest: bool) -> None:
    weft.manual_seed(0)
    half = weft.rand(6, 6, dtype=weft.float64)
    matrix = (half @ half.mT).requires_grad_()

    def pairs(matrix: Any) -> Any:
        values, vectors = weft.lobpcg(
            matrix, k=1, X=weft.eye(6, 1, dtype=weft.float64), largest=largest
        )
        return values, vectors * vectors.gather(-2, vectors.abs().max(-2, keepdim=True)[1]).sign()

    assert weft.autograd.gradcheck(pairs, (matrix,))
    sum(part.sum() for part in pairs(matrix)).backward()
    assert weft.allclose(matrix.grad, matrix.grad.mT)
