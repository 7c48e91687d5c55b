"""Systems that are solved with factors, reflections and least squares: values and derivatives of LAPACK's routines."""

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

KINDS = {"float64": 1e-9, "float32": 2e-3, "complex128": 1e-9}


def matrices(dtype, *shape, seed=0):
    draw = np.random.default_rng(seed)
    made = draw.standard_normal(shape)
    if dtype.startswith("complex"):
        made = made + 1j * draw.standard_normal(shape)
    return made.astype(dtype)


def definite(dtype, size, *lead):
    half = matrices(dtype, *lead, size, size)
    return half @ half.conj().swapaxes(-1, -2) + size * np.eye(size, dtype=dtype)


def lu_solved(lib, a, b, **options):
    return lib.linalg.lu_solve(*lib.linalg.lu_factor(a), b, **options)


def ldl_solved(lib, a, b, hermitian):
    made = a + (a.mH if hermitian else a.mT)
    with lib.no_grad():
        return lib.linalg.ldl_solve(
            *lib.linalg.ldl_factor(made, hermitian=hermitian), b, hermitian=hermitian
        )


def reflected(lib, a, b, left, transpose):
    """`a` stands for what geqrf leaves."""
    other = b if left else b.mT
    return lib.ormqr(a[..., :3] / 9, b[..., 0, :], other, left, transpose)


CALLS = {
    "lu_solve": lu_solved,
    "lu_solve of the adjoint": lambda lib, a, b: lu_solved(lib, a, b, adjoint=True),
    "lu_solve from the right": lambda lib, a, b: lu_solved(lib, a, b.mT, left=False),
    "cholesky_solve": lambda lib, a, b: lib.cholesky_solve(b, a.tril()),
    "cholesky_solve, upper": lambda lib, a, b: lib.cholesky_solve(b, a.triu(), True),
    "cholesky_inverse": lambda lib, a, b: lib.cholesky_inverse(a.tril()),
    "cholesky_inverse, upper": lambda lib, a, b: lib.cholesky_inverse(a.triu(), True),
    "ormqr": lambda lib, a, b: reflected(lib, a, b, True, False),
    "ormqr, turned": lambda lib, a, b: reflected(lib, a, b, True, True),
    "ormqr from the right": lambda lib, a, b: reflected(lib, a, b, False, False),
    "ormqr from the right, turned": lambda lib, a, b: reflected(lib, a, b, False, True),
    "householder_product": lambda lib, a, b: lib.linalg.householder_product(
        a[..., :3], b[..., 0, :]
    ),
    "lstsq": lambda lib, a, b: lib.linalg.lstsq(a, b)[0],
    "lstsq of more equations": lambda lib, a, b: lib.linalg.lstsq(a[..., :2], b)[0],
    "ldl_solve": lambda lib, a, b: ldl_solved(lib, a, b, False),
    "ldl_solve, hermitian": lambda lib, a, b: ldl_solved(lib, a, b, True),
}


@pytest.mark.parametrize("lead", [(), (2, 2), (0,)], ids=str)
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_values_are_pytorchs(name, dtype, lead):
    a, b = definite(dtype, 5, *lead), matrices(dtype, *lead, 5, 3, seed=1)
    ours = CALLS[name](weft, weft.tensor(a), weft.tensor(b))
    theirs = CALLS[name](torch, torch.tensor(a), torch.tensor(b))
    assert ours.shape == theirs.shape
    assert ours.stride() == theirs.stride() or 0 in ours.shape
    theirs = theirs.resolve_conj()
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), KINDS[dtype], KINDS[dtype])


@pytest.mark.parametrize("dtype, lead", [("float64", ()), ("complex128", (2,))], ids=str)
@pytest.mark.parametrize("name", [name for name in CALLS if "ldl" not in name])
def test_derivatives_of_any_order(name, dtype, lead):
    a, b = definite(dtype, 4, *lead), matrices(dtype, *lead, 4, 3, seed=1)
    a, b = (weft.tensor(x, requires_grad=True) for x in (a, b))

    def function(a, b):
        return CALLS[name](weft, a, b)

    assert weft.autograd.gradcheck(function, (a, b), fast_mode=True)
    if not lead:
        assert weft.autograd.gradgradcheck(function, (a, b), fast_mode=True)


@pytest.mark.parametrize("name", ["lu_solve", "cholesky_solve", "cholesky_inverse", "lstsq"])
def test_gradients_are_pytorchs(name):
    arrays = definite("float64", 5, 2), matrices("float64", 2, 5, 3, seed=1)
    gradients = {}
    for lib in (weft, torch):
        leaves = [lib.tensor(x, requires_grad=True) for x in arrays]
        (CALLS[name](lib, *leaves) ** 2).sum().backward()
        gradients[lib.__name__] = [x.grad for x in leaves if x.grad is not None]
    for ours, theirs in zip(gradients["weft"], gradients["torch"], strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), 1e-8, 1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_indefinite_systems_have_blocks_of_two(seed):
    a = matrices("float64", 6, 6, seed=seed)
    a = a + a.T
    a[[0, 1], [0, 1]] = 0
    b = matrices("float64", 6, 2, seed=9)
    factors, pivots = weft.linalg.ldl_factor(weft.tensor(a))
    found = weft.linalg.ldl_solve(factors, pivots, weft.tensor(b))
    np.testing.assert_allclose(a @ found.numpy(), b, 1e-7, 1e-8)


def test_least_squares_of_a_singular_system():
    """The shortest solution, the rank, and none of what the driver does not give."""
    a = matrices("float64", 5, 2) @ matrices("float64", 2, 4, seed=1)
    b = matrices("float64", 5, 2, seed=2)
    ours, theirs = (lib.linalg.lstsq(lib.tensor(a), lib.tensor(b)) for lib in (weft, torch))
    for part, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(part.numpy(), other.numpy(), 1e-8, 1e-10)


@pytest.mark.parametrize("name", ["lu", "cholesky"])
def test_a_zero_on_the_diagonal_gives_no_number(name):
    factor = weft.tensor([[2.0, 0.0], [1.0, 0.0]])
    b = weft.ones(2, 1)
    if name == "lu":
        found = weft.linalg.lu_solve(factor, weft.tensor([1, 2], dtype=weft.int32), b)
    else:
        found = weft.cholesky_solve(b, factor)
    assert not found.isfinite().all()


BATCHED = {
    "solve": lambda a, b: weft.linalg.solve(a, b),
    "inv": lambda a, b: weft.linalg.inv(a),
    "cholesky": lambda a, b: weft.linalg.cholesky(a),
    "cholesky_solve": lambda a, b: weft.cholesky_solve(b, a.tril()),
    "solve_triangular": lambda a, b: weft.linalg.solve_triangular(a, b, upper=True),
}


@pytest.mark.parametrize("name", BATCHED)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (0,)])
def test_batch_has_the_values_of_its_matrices(name, dtype, lead):
    """Each matrix of a batch gives the same bits as alone, and solves its equation."""
    a = weft.from_numpy(definite(dtype, 4, *lead))
    b = weft.from_numpy(matrices(dtype, *lead, 4, 2, seed=1))
    found = BATCHED[name](a, b)
    assert found.shape == (b if "solve" in name else a).shape
    rows = zip(a.reshape(-1, 4, 4), b.reshape(-1, 4, 2), strict=True)
    for one, (matrix, right) in zip(found.reshape(-1, *found.shape[-2:]), rows, strict=True):
        assert one.equal(BATCHED[name](matrix, right))
    if name == "solve":
        np.testing.assert_allclose(a @ found, b, rtol=1e-3, atol=1e-4)


def test_one_matrix_solves_a_batch_of_right_sides():
    a = weft.from_numpy(definite("float64", 3))
    b = weft.from_numpy(matrices("float64", 5, 3, 2))
    assert weft.linalg.solve(a, b).equal(weft.stack([weft.linalg.solve(a, one) for one in b]))


def test_first_singular_matrix_is_named():
    batch = weft.from_numpy(np.stack([np.eye(3), np.diag([1.0, 0.0, 2.0])]))
    with pytest.raises(weft.linalg.LinAlgError, match=r"(?s)Batch element 1.*diagonal element 2"):
        weft.linalg.solve(batch, weft.ones(2, 3, 1, dtype=weft.float64))


REALS = [weft.float32, weft.float64]
NUMBERS = [*REALS, weft.complex64, weft.complex128]
BATCHES: list[tuple[int, ...]] = [(), (3,), (2, 0), (2, 3)]


def _random(shape: tuple[int, ...], dtype: weft.dtype, seed: int = 0) -> weft.Tensor:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) + (
        1j * rng.standard_normal(shape) if dtype.is_complex else 0
    )
    return weft.tensor(values).to(dtype)


def _close(got: weft.Tensor, expected: weft.Tensor) -> None:
    precise = got.dtype in (weft.float64, weft.complex128)
    np.testing.assert_allclose(got.numpy(), expected.numpy(), 0, 1e-10 if precise else 1e-3)


@pytest.mark.parametrize("sizes", [(1, 1), (4, 4), (5, 3), (3, 5), (40, 40), (0, 3), (3, 0)])
@pytest.mark.parametrize("lead", BATCHES)
@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda d: d.name)
def test_lu_parts_multiply_to_the_matrix(
    dtype: weft.dtype, lead: tuple[int, ...], sizes: tuple[int, int]
) -> None:
    """The same parts with a gradient to follow, which come from the compact factors."""
    a = _random((*lead, *sizes), dtype)
    p, lower, upper = weft.linalg.lu(a)
    assert p.dtype is lower.dtype is upper.dtype is dtype
    assert lower.shape == (*lead, sizes[0], min(sizes)) and upper.shape == (
        *lead,
        min(sizes),
        sizes[1],
    )
    _close(p @ lower @ upper, a)
    for part, tracked in zip(
        (p, lower, upper), weft.linalg.lu(a.clone().requires_grad_()), strict=True
    ):
        _close(part, tracked.detach())


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("lead", BATCHES)
@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda d: d.name)
def test_lu_solve_solves(
    dtype: weft.dtype, lead: tuple[int, ...], left: bool, turned: bool
) -> None:
    a = _random((*lead, 5, 5), dtype)
    b = _random((*lead, *((5, 2) if left else (2, 5))), dtype, 1)
    x = weft.linalg.lu_solve(*weft.linalg.lu_factor(a), b, left=left, adjoint=turned)
    matrix = a.mH if turned else a
    _close(matrix @ x if left else x @ matrix, b)


@pytest.mark.parametrize("triangle", ["L", "U"])
@pytest.mark.parametrize("size", [1, 2, 16, 40])
@pytest.mark.parametrize("lead", BATCHES)
@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda d: d.name)
def test_eigenvectors_of_one_triangle(
    dtype: weft.dtype, lead: tuple[int, ...], size: int, triangle: str
) -> None:
    a = _random((*lead, size, size), dtype)
    whole = a.tril() + a.tril(-1).mH if triangle == "L" else a.triu() + a.triu(1).mH
    diagonal = weft.diag_embed(a.diagonal(0, -2, -1).real).to(dtype)
    whole = weft.where(weft.eye(size, dtype=weft.bool), diagonal, whole)
    values, vectors = weft.linalg.eigh(whole.tril() if triangle == "L" else whole.triu(), triangle)
    assert values.dtype is dtype.to_real() and vectors.dtype is dtype
    _close(whole @ vectors, vectors * values.unsqueeze(-2).to(dtype))
    assert bool((values.diff() >= 0).all())
    _close(vectors.mH @ vectors, weft.eye(size, dtype=dtype).expand(vectors.shape))


@pytest.mark.parametrize("sizes", [(1, 1), (4, 4), (5, 3), (3, 5), (40, 33), (0, 3)])
@pytest.mark.parametrize("lead", BATCHES)
@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda d: d.name)
def test_singular_vectors(dtype: weft.dtype, lead: tuple[int, ...], sizes: tuple[int, int]) -> None:
    a = _random((*lead, *sizes), dtype)
    for whole in (False, True):
        u, s, vh = weft.linalg.svd(a, full_matrices=whole)
        count = min(sizes)
        assert s.shape == (*lead, count) and bool((s >= 0).all())
        _close((u[..., :count] * s.unsqueeze(-2).to(dtype)) @ vh[..., :count, :], a)


@pytest.mark.parametrize("function", [weft.linalg.eigh, weft.linalg.svd])
@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda d: d.name)
def test_what_does_not_converge_is_an_error(function: Any, dtype: weft.dtype) -> None:
    with pytest.raises(weft.linalg.LinAlgError, match="converge"):
        function(weft.full((3, 3), float("nan"), dtype=dtype))


@pytest.mark.parametrize(
    "layout", [lambda x: x.mT, lambda x: x[::2], lambda x: x.expand(2, *x.shape[-2:])]
)
def test_factors_of_views(layout: Any) -> None:
    a = layout(_random((4, 4), weft.float64))
    p, lower, upper = weft.linalg.lu(a)
    _close(p @ lower @ upper, a)
    u, s, vh = weft.linalg.svd(a, full_matrices=False)
    _close((u * s.unsqueeze(-2)) @ vh, a)


def test_memory_of_factors_is_by_columns_and_writable() -> None:
    a = _random((4, 4), weft.float64)
    lower = weft.linalg.cholesky(a @ a.mT)
    array = lower.numpy()
    assert lower.stride() == (1, 4) and array.flags.f_contiguous
    array[2, 1] = 7
    assert lower[2, 1].item() == 7
