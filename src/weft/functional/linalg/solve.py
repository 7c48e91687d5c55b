# ruff: noqa: A001, A002 - PyTorch's names
"""Systems of linear equations: solve, inverse, determinants, Cholesky factors.

Matrices come in in the last two dimensions and are read at the call; what goes out has derivatives of any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.api.api_function import publish
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.engine.ir.strides import broadcast_shapes
from weft.errors import ShapeError
from weft.functional.linalg.factored import (
    OTHER_TYPE,
    Factored,
    adjoint,
    check_definite,
    check_regular,
    identity,
    keep,
    need_matrices,
    need_same,
)
from weft.functional.linalg.factorizations import (
    LinalgCholeskyEx,
    LinalgInvEx,
    LinalgSolveEx,
    LinalgSolveTriangular,
    by_factor,
    solved_by_factor,
)
from weft.functional.linalg.lapack_primitives import by_matrix, valued
from weft.functional.support import host, lapack_batches
from weft.functional.support.blas_threads import linalg
from weft.functional.support.lapack_batches import any_failed
from weft.functional.support.lapack_lu import zero_pivots
from weft.functional.support.matrix_batches import matrices
from weft.functional.support.memory_formats import columns_first
from weft.functional.support.return_types import result_type
from weft.functional.support.variants import given
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import where
from weft.tensor.arguments import describe, need_tensor

if TYPE_CHECKING:
    from weft.autograd.custom.context import FunctionCtx


InvEx = result_type("linalg_inv_ex")
SolveEx = result_type("linalg_solve_ex")
CholeskyEx = result_type("linalg_cholesky_ex")
Slogdet = result_type("linalg_slogdet")
TriangularSolve = result_type("triangular_solve")


# -- inverses and systems --------------------------------------------------------------------------------------------


def inv(A: Tensor, *, out: Tensor | None = None) -> Any:
    """The inverse of square matrices. Errors: LinAlgError where one is singular."""
    need_matrices("linalg.inv", A)
    return given(out, columns_first(LinalgInvEx.apply(A)))


def inv_ex(A: Tensor, *, check_errors: bool = False, out: Tensor | None = None) -> Any:
    """(inverse, info): where info is not 0 the matrix is singular, and its inverse means nothing."""
    need_matrices("linalg.inv_ex", A)
    infos = zero_pivots(matrices(A))
    if check_errors:
        check_regular("linalg.inv_ex", infos)
    regular = A if not any_failed(infos) else _made_regular(A, infos)
    return given(out, InvEx((columns_first(LinalgInvEx.apply(regular)), host.from_numpy(infos))))


def _made_regular(A: Tensor, infos: Any) -> Any:
    """Matrices with the identity in place of singular ones."""
    singular = host.from_numpy((infos != 0)[..., None, None])
    return where(singular, identity(A._shape[-1], A._dtype), A)


def _is_vector(A: Tensor, B: Tensor) -> bool:
    """True if B is a batch of vectors rather than of matrices."""
    return len(B._shape) == 1 or (len(A._shape) - 1 == len(B._shape) and A._shape[:-1] == B._shape)


def need_rows(name: str, A: Tensor, B: Tensor, left: bool) -> None:
    rows, want = B._shape[-2 if left else -1], A._shape[-1]
    if rows != want:
        raise ShapeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'}"
            f" ({A._shape[-2]}x{A._shape[-1]} and {B._shape[-2]}x{B._shape[-1]})",
            expected=f"{want} {'rows' if left else 'columns'} in B",
            got=f"{describe('A', A)}, {describe('B', B)}",
            fix="transpose B, or check left=",
        )


def _solved(name: str, A: Tensor, B: Tensor, left: bool, infos: np.ndarray | None) -> Any:
    need_tensor(name, B, "B", 2)
    need_same(
        "linalg.solve: Expected A and B to have the same dtype, but found A of type {0} and B of type {1} instead",
        A,
        B,
    )
    vector = left and _is_vector(A, B)
    if not vector and len(B._shape) < 2:
        need_matrices(name, B, "B", False)
    right = B.unsqueeze(-1) if vector else B
    need_rows(name, A, right, left)
    broadcast_shapes([A._shape[:-2], right._shape[:-2]], name)
    regular = A if infos is None or not any_failed(infos) else _made_regular(A, infos)
    if left:
        result = columns_first(LinalgSolveEx.apply(regular, right, f"torch.{name}"))
    else:
        result = LinalgSolveEx.apply(regular.mT, right.mT).mT
    if vector and len(B._shape) > 1:  # a batch of vectors has the memory order of a matrix
        return columns_first(call("clone", result.squeeze(-1)))
    return result.squeeze(-1) if vector else result


def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Any:
    """X with A X = B (X A = B unless `left`); B holds vectors or matrices. Errors: LinAlgError on singular A."""
    need_matrices("linalg.solve", A)
    if not left:  # LAPACK factors the transpose then, and would name another column
        check_regular("torch.linalg.solve", zero_pivots(matrices(A)))
    return given(out, _solved("linalg.solve", A, B, left, None))


def solve_ex(
    A: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    check_errors: bool = False,
    out: Tensor | None = None,
) -> Any:
    """(X, info): where info is not 0 the matrix is singular, and X means nothing."""
    need_matrices("linalg.solve_ex", A)
    infos = zero_pivots(matrices(A))
    if check_errors:
        check_regular("torch.linalg.solve_ex", infos)
    result = _solved("linalg.solve_ex", A, B, left, infos)
    return given(out, SolveEx((result, host.from_numpy(infos))))


def solve_triangular(
    A: Tensor,
    B: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | None = None,
) -> Any:
    """X with A X = B (X A = B unless `left`) for triangular A; the other triangle is not read."""
    need_matrices("linalg.solve_triangular", A)
    need_matrices("linalg.solve_triangular", B, "B", False)
    need_same("expected scalar type {0} but found {1}", A, B)
    need_rows("linalg.solve_triangular", A, B, left)
    broadcast_shapes([A._shape[:-2], B._shape[:-2]], "linalg.solve_triangular")
    return given(out, columns_first(substituted(A, B, upper, left, unitriangular)))


def substituted(A: Tensor, B: Tensor, upper: bool, left: bool = True, unit: bool = False) -> Any:
    """`solve_triangular`, without checks."""
    if left:
        return LinalgSolveTriangular.apply(A, B, upper, unit)
    return LinalgSolveTriangular.apply(A.mT, B.mT, not upper, unit).mT


def triangular_solve(
    b: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: Tensor | None = None,
) -> Any:
    """(X, a copy of A) with A X = b, or A^T X = b."""
    need_matrices("triangular_solve", A)
    need_matrices("triangular_solve", b, "b", False)
    need_same(OTHER_TYPE, b, A)
    need_rows("triangular_solve", A, b, True)
    lead = broadcast_shapes([A._shape[:-2], b._shape[:-2]], "triangular_solve")
    matrix = A.mT if transpose else A
    result = substituted(matrix, b, upper != transpose, True, unitriangular)
    copied = columns_first(call("clone", A.expand(*lead, *A._shape[-2:])))
    return given(out, TriangularSolve((columns_first(result), copied)))


# -- determinants ----------------------------------------------------------------------------------------------------


def slogdet(A: Tensor, *, out: Tensor | None = None) -> Any:
    """(sign, logarithm of the absolute value) of determinants; 0 and -inf for singular matrices."""
    need_matrices("linalg.slogdet", A)
    return given(out, Slogdet(LinalgSlogdet.apply(A)))


def legacy_slogdet(input: Tensor, *, out: Tensor | None = None) -> Any:
    """`slogdet` as it is called in `weft` itself."""
    return given(out, result_type("slogdet")(slogdet(input)))


legacy_slogdet.__name__ = "slogdet"


class LinalgSlogdet(Factored):
    """The sign and the logarithm of the absolute value of determinants."""

    @staticmethod
    def forward(ctx: FunctionCtx, a: Tensor) -> Any:
        """(sign, logabs)."""
        sign, logs = linalg.slogdet(host.to_numpy(a))
        made = host.from_numpy(sign, a._dtype), host.from_numpy(logs, a._dtype.to_real())
        return keep(ctx, LinalgSlogdet.rule, made, a, made[0])

    @staticmethod
    def rule(saved: tuple[Tensor, ...], by_sign: Tensor | None, by_log: Tensor | None) -> Any:
        """A^-H times the cotangent of the logarithm, of which the angle of the sign is the imaginary part."""
        a, sign = saved
        total = None if by_log is None else cast(by_log, sign._dtype)
        if by_sign is not None and sign._dtype.is_complex:
            angle = call("imag", by_sign * call("conj", sign))
            turn = call("complex", angle * 0, angle)
            total = turn if total is None else total + turn
        if total is None:
            return a * 0
        return total.unsqueeze(-1).unsqueeze(-1) * adjoint(_inverse_or_nan(a))


def _inverse_or_nan(a: Tensor) -> Any:
    """The inverse; nan for singular matrices."""
    infos = zero_pivots(matrices(a))
    if not any_failed(infos):
        return LinalgInvEx.apply(a)
    inverse = LinalgInvEx.apply(_made_regular(a, infos))
    return where(host.from_numpy((infos != 0)[..., None, None]), float("nan"), inverse)


def logdet(A: Tensor, *, out: Tensor | None = None) -> Any:
    """The logarithm of determinants: nan where one is negative, -inf where one is 0."""
    need_matrices("logdet", A)
    sign, logs = slogdet(A)
    if A._dtype.is_complex:
        return given(out, logs + call("log", sign))
    return given(out, where(sign == -1, float("nan"), logs))


def det(A: Tensor, *, out: Tensor | None = None) -> Any:
    """Determinants. The gradient is right at singular matrices too."""
    need_matrices("linalg.det", A)
    return given(out, LinalgDet.apply(A))


class LinalgDet(Factored):
    """Determinants."""

    @staticmethod
    def forward(ctx: FunctionCtx, a: Tensor) -> Any:
        """det(A)."""
        array = host.to_numpy(a)
        made = host.from_numpy(
            linalg.det(array) if a._shape[-1] else np.ones(a._shape[:-2]), a._dtype
        )
        return keep(ctx, LinalgDet.rule, (made,), a)

    @staticmethod
    def rule(saved: tuple[Tensor, ...], g: Tensor) -> Any:
        """g times the conjugate cofactors."""
        (a,) = saved
        found = cofactors(a)
        found = call("conj", found) if found._dtype.is_complex else found
        return g.unsqueeze(-1).unsqueeze(-1) * found


MOST_MINORS = 12  # matrices up to this size: cofactors of singular ones are determinants of minors


def cofactors(A: Tensor) -> Any:
    """The cofactors of matrices. det(A) A^-T where A is regular; else the determinants of its minors, which have all
    derivatives, or (for large matrices) what singular vectors give."""
    size, array = A._shape[-1], host.to_numpy(A)
    if not A.numel():
        return A
    eps = np.finfo(array.real.dtype).eps
    with np.errstate(all="ignore"):
        values = linalg.svd(array, compute_uv=False)
    if (values[..., -1] > eps**0.5 * values[..., 0]).all():
        value = det(A).unsqueeze(-1).unsqueeze(-1)
        return value * LinalgInvEx.apply(A).mT
    if size > MOST_MINORS:
        return _by_singular_vectors(array, A._dtype)
    if size == 1:
        return A * 0 + 1
    return _minors(A, size)


def _minors(A: Tensor, size: int) -> Any:
    """The determinant without row i and column j, with its sign, for each i and j."""
    others = np.array([[k for k in range(size) if k != i] for i in range(size)])
    rows = host.from_numpy(others[:, None, :, None] * np.ones((1, size, 1, size - 1), np.int64))
    columns = host.from_numpy(others[None, :, None, :] * np.ones((size, 1, size - 1, 1), np.int64))
    parts = A[..., rows, columns]  # (..., n, n, n - 1, n - 1)
    signs = host.from_numpy((-1.0) ** np.add.outer(range(size), range(size)), A._dtype.to_real())
    return det(parts) * signs


def _by_singular_vectors(array: np.ndarray, dtype: DType) -> Any:
    """det(U) det(V^H) conj(U) diag(products of the other singular values) V^H, as a constant."""
    u, s, vh = linalg.svd(array)
    count = s.shape[-1]
    others = np.stack([np.prod(np.delete(s, k, -1), -1) for k in range(count)], -1)
    turn = linalg.det(u) * linalg.det(vh)
    made = turn[..., None, None] * ((u.conj() * others[..., None, :]) @ vh.conj())
    return host.from_numpy(made, dtype)


# -- Cholesky --------------------------------------------------------------------------------------------------------


def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False, out: Tensor | None = None
) -> Any:
    """(L, info) with A = L L^H; info is not 0 where A is not positive definite, and L means nothing there."""
    need_matrices("linalg.cholesky_ex", A)
    factor, info = LinalgCholeskyEx.apply(adjoint(A) if upper else A)
    if check_errors:
        check_definite("linalg.cholesky_ex", host.to_numpy(info))
    return given(out, CholeskyEx((columns_first(adjoint(factor) if upper else factor), info)))


def linalg_cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Any:
    """L with A = L L^H, of Hermitian positive definite matrices (U with A = U^H U if `upper`).

    Errors: LinAlgError where one is not positive definite.
    """
    need_matrices("linalg.cholesky", A)
    factor = LinalgCholeskyEx.apply(adjoint(A) if upper else A, "linalg.cholesky")
    return given(out, columns_first(adjoint(factor) if upper else factor))


def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Any:
    """L with A = L L^H, of Hermitian positive definite matrices (U with A = U^H U if `upper`)."""
    need_matrices("cholesky", input)
    return linalg_cholesky(input, upper=upper, out=out)


def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False, *, out: object = None) -> Any:
    """X with A X = B, given the Cholesky factor of A."""
    need_matrices("cholesky_solve", L, "L")
    need_matrices("cholesky_solve", B, "B", False)
    need_same(OTHER_TYPE, B, L)
    need_rows("cholesky_solve", L, B, True)
    if L._shape[:-2] != B._shape[:-2] or not _can_divide(L):
        return given(out, columns_first(_twice_substituted(L, B, upper)))

    made = solved_by_factor(L, B, upper) if B.numel() else call("clone", B)
    return given(out, columns_first(made))


def _can_divide(L: Tensor) -> bool:
    """True if no element of the diagonals, by which substitution divides, is 0."""
    return 0 not in L._shape and not lapack_batches.has_zero_pivot(matrices(L))


def _twice_substituted(L: Tensor, B: Tensor, upper: bool) -> Any:
    """`cholesky_solve` as a composition."""
    first = adjoint(L) if upper else L
    half = substituted(first, B, False)
    return substituted(adjoint(first), half, True)


def cholesky_inverse(L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Any:
    """The inverse of A, given its Cholesky factor."""
    need_matrices("cholesky_inverse", L, "L")
    if not _can_divide(L):
        return given(out, columns_first(_inverse_of_factor(L, upper)))

    def one(factor: np.ndarray) -> Any:
        half = host.routine("potri", factor.dtype)(factor, lower=not upper)[0]
        strict = np.tril(half, -1) if not upper else np.triu(half, 1)
        return strict + np.diag(np.diagonal(half)) + strict.conj().T

    def rule(factor: Tensor, x: Tensor, g: Tensor) -> Any:
        return (by_factor(factor, -(x @ g @ x), upper),)

    return given(out, columns_first(valued("CholeskyInverse", by_matrix(one), rule)(L)))


def _inverse_of_factor(L: Tensor, upper: bool) -> Any:
    """`cholesky_inverse` as a composition."""
    first = adjoint(L) if upper else L
    half = substituted(first, identity(L._shape[-1], L._dtype).expand(L._shape), False)
    return adjoint(half) @ half


inverse = inv
linalg_cholesky.__name__ = "cholesky"
publish(globals())
