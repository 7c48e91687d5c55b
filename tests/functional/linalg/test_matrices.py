"""Linear algebra at the points where derivatives are delicate, and its refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.autograd import gradcheck, gradgradcheck

SOURCE = np.random.default_rng(0)


def matrix(*shape: int, shift: float = 0.0) -> Any:
    """A fixed random matrix in float64 that requires a gradient."""
    return weft.tensor(
        SOURCE.standard_normal(shape) + shift * np.eye(*shape[-2:]), requires_grad=True
    )


@pytest.mark.parametrize("size", (1, 2, 3, 5))
@pytest.mark.parametrize("rank_lost", (1, 2))
def test_the_determinant_has_its_gradients_at_singular_matrices(size: int, rank_lost: int) -> None:
    """Cofactors: finite differences find them too, in first and second order."""
    values = np.diag([0.0] * min(rank_lost, size) + [2.0] * (size - min(rank_lost, size)))
    turn = np.linalg.qr(SOURCE.standard_normal((size, size)))[0]
    singular = weft.tensor(turn @ values @ turn.T, requires_grad=True)
    assert gradcheck(weft.linalg.det, (singular,))
    assert gradgradcheck(weft.linalg.det, (singular,))


def test_the_determinant_of_a_large_singular_matrix_has_its_gradient() -> None:
    size = 20
    array = SOURCE.standard_normal((size, size))
    array[3] = array[5]
    x = weft.tensor(array, requires_grad=True)
    weft.det(x).backward()
    wanted = [0.0] * size
    for column in range(size):
        minor = np.delete(np.delete(array, 3, 0), column, 1)
        wanted[column] = (-1.0) ** (3 + column) * np.linalg.det(minor)
    scale = max(map(abs, wanted))
    assert np.allclose(x.grad[3].numpy(), wanted, 1e-8, 1e-8 * scale)
    assert np.allclose(x.grad[0].numpy(), 0, atol=1e-8 * scale)


def test_eigenvalues_that_repeat_have_the_gradient_of_what_does_not_choose_among_vectors() -> None:
    """The projector on the space of a repeated eigenvalue, and sums of functions of eigenvalues."""
    turn = np.linalg.qr(SOURCE.standard_normal((4, 4)))[0]
    array = turn @ np.diag([1.0, 1.0, 3.0, 4.0]) @ turn.T
    weight = weft.tensor(SOURCE.standard_normal((4, 4)))

    def projected(a: Any) -> Any:
        vectors = weft.linalg.eigh((a + a.mT) / 2)[1][:, :2]
        return (vectors @ vectors.mT * weight).sum()

    x = weft.tensor(array, requires_grad=True)
    assert gradcheck(projected, (x,), atol=1e-4)
    x.grad = None
    weft.linalg.eigvalsh(x).exp().sum().backward()
    assert np.allclose(x.grad.numpy(), turn @ np.diag(np.exp([1, 1, 3, 4])) @ turn.T)


def test_a_gradient_that_chooses_among_equal_eigenvalues_is_nan() -> None:
    x = weft.eye(3, dtype=weft.float64, requires_grad=True)
    weft.linalg.eigh(x)[1][0, 1].backward()
    assert x.grad.isnan().any()


def test_singular_values_that_repeat() -> None:
    x = weft.eye(3, dtype=weft.float64, requires_grad=True)
    u, s, vh = weft.linalg.svd(x)
    (u @ vh).sum().backward()
    assert x.grad.isfinite().all()
    assert s.tolist() == [1.0, 1.0, 1.0]


FACTORS: dict[str, Any] = {
    "inv": lambda a: weft.linalg.inv(a),
    "solve": lambda a: weft.linalg.solve(a, a.mT),
    "cholesky": lambda a: weft.linalg.cholesky(a @ a.mT),
    "qr": lambda a: weft.linalg.qr(a),
    "lu": lambda a: weft.linalg.lu(a)[1:],
    "slogdet": lambda a: weft.linalg.slogdet(a)[1],
    "logdet": lambda a: weft.logdet(a @ a.mT),
    "matrix_exp": lambda a: weft.linalg.matrix_exp(a),
    "matrix_power": lambda a: weft.linalg.matrix_power(a, -2),
    "pinv": lambda a: weft.linalg.pinv(a[..., :2]),
    "lstsq": lambda a: weft.linalg.lstsq(a[..., :2], a[..., 2:])[0],
    "eigvalsh": lambda a: weft.linalg.eigvalsh(a + a.mT),
    "eigvals": lambda a: weft.linalg.eigvals(a).abs().sort()[0],
    "svdvals": lambda a: weft.linalg.svdvals(a),
}


@pytest.mark.parametrize("name", FACTORS)
def test_derivatives(name: str) -> None:
    x = matrix(3, 3, shift=3.0)
    assert gradcheck(FACTORS[name], (x,), check_forward_ad=True)
    assert gradgradcheck(FACTORS[name], (x,))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: weft.linalg.inv(weft.zeros(3, 3)), "singular"),
        (lambda: weft.linalg.solve(weft.zeros(2, 2), weft.ones(2)), "singular"),
        (lambda: weft.linalg.cholesky(-weft.eye(2)), "not positive-definite"),
        (lambda: weft.linalg.inv(weft.ones(2, 3)), "square"),
        (lambda: weft.linalg.inv(weft.ones(2)), "at least 2 dimensions"),
        (lambda: weft.linalg.inv(weft.ones(2, 2).half()), "Low precision"),
        (lambda: weft.linalg.inv(weft.ones(2, 2).int()), "floating point or complex"),
        (lambda: weft.linalg.eigh(weft.ones(2, 2), "X"), "UPLO"),
        (lambda: weft.linalg.qr(weft.ones(2, 2), "x"), "mode"),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=f"(?s){text}.*expected.*got.*fix"):
        call()


def test_singular_matrices_raise_linalg_errors() -> None:
    with pytest.raises(weft.linalg.LinAlgError):
        weft.inverse(weft.zeros(2, 2))


@pytest.mark.parametrize("order", [-2.5, -1, -0.5, 0.5, 3])
@pytest.mark.parametrize(
    "values",
    [
        [3.0, -4.0, 0.0],
        [0.0, 0.0],
        [1.0, 2.0],
        [float("inf"), 1.0],
        [-float("inf")] * 2,
        [1e-200, 1.0],
        [float("nan"), 0.0],
        [float("inf"), 0.0],
        [float("nan"), -2.0, float("inf")],
    ],
)
def test_norms_of_any_order_are_pytorchs_where_an_element_is_0(
    order: float, values: list[float]
) -> None:
    found = []
    for lib in (weft, torch):
        x = lib.tensor(values, dtype=lib.float64, requires_grad=True)
        norm = lib.linalg.vector_norm(x, order)
        norm.backward()
        found.append([norm.item(), *x.grad.tolist()])
    np.testing.assert_allclose(*found)


NUMBERS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
NORMS = {
    "norm": lambda lib, x, dtype: lib.norm(x, dtype=dtype),
    "vector_norm": lambda lib, x, dtype: lib.linalg.vector_norm(x, 3, dtype=dtype),
    "matrix_norm": lambda lib, x, dtype: lib.linalg.matrix_norm(x, 1, dtype=dtype),
    "spectral": lambda lib, x, dtype: lib.linalg.matrix_norm(x, 2, dtype=dtype),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("given", (*NUMBERS, "int64"))
def test_norms_are_taken_in_types_that_hold_their_operands(name: str, given: str) -> None:
    """The type of a norm, or the first line of the error, is PyTorch's."""
    for wanted in (*NUMBERS, "int32"):
        if name == "spectral" and "16" in given + wanted:
            continue  # what PyTorch decomposes at all
        found = []
        for lib in (torch, weft):
            x = lib.ones(2, 2, dtype=getattr(lib, given))
            try:
                norm = NORMS[name](lib, x, getattr(lib, wanted))
            except RuntimeError as error:
                found.append(str(error).split(", called")[0].split("\n")[0])
            else:
                found.append(str(norm.dtype).split(".")[-1])
        mine = found[1].replace("linalg.vector_norm:", "linalg.matrix_norm:")
        assert mine == found[0].replace("linalg.vector_norm:", "linalg.matrix_norm:"), wanted


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 4, 2), (1, 1)])
def test_a_matrix_of_fewer_columns_than_directions(shape):
    """A random projection on more directions than a matrix has gives all of its singular values."""
    weft.manual_seed(0)
    x = weft.randn(*shape, dtype=weft.float64)
    for q in (6, 9):
        u, s, v = weft.svd_lowrank(x, q=q)
        weft.testing.assert_close((u * s.unsqueeze(-2)) @ v.mT, x)
        weft.testing.assert_close(s, weft.linalg.svdvals(x))
