# ruff: noqa: A001, A002 - PyTorch's names
"""Eigenvalues, singular values, QR, and what is made of them: pseudoinverse, rank, condition.

Matrices come in in the last two dimensions and are read at the call; what goes out has derivatives of any order where
they exist.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.api.api_function import publish
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, DTypeError, LinAlgError
from weft.functional.linalg.factored import adjoint, lapack, need_matrices
from weft.functional.linalg.factorizations import LinalgEig, LinalgEigh, LinalgPinv, LinalgQr
from weft.functional.linalg.singular_values import LinalgSvd
from weft.functional.linalg.solve import inv_ex
from weft.functional.shape.concat import cat
from weft.functional.support import host, lapack_batches, matrix_batches
from weft.functional.support.memory_formats import columns_first
from weft.functional.support.return_types import result_type
from weft.functional.support.variants import given
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full, where
from weft.tensor.arguments import TYPE_NAMES, describe, need_tensor, no_kernel

if TYPE_CHECKING:
    from weft._typing import Array, TensorLike


Eigh = result_type("linalg_eigh")
Eig = result_type("linalg_eig")
Svd = result_type("linalg_svd")
LegacySvd = result_type("svd")
Qr = result_type("linalg_qr")
LegacyQr = result_type("qr")


# -- eigenvalues -------------------------------------------------------------------------------------------------------


def _lower(name: str, UPLO: object) -> bool:
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise ArgumentError(
            f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}",
            expected="'L' or 'U'",
            got=repr(UPLO),
            fix="say which triangle to read",
        )
    return UPLO.upper() == "L"


def eigh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Any:
    """(eigenvalues in ascending order, orthonormal eigenvectors) of Hermitian matrices; one triangle is read.

    Where eigenvalues repeat, the gradient of what does not depend on the choice of eigenvectors is right, or nan.
    """
    need_matrices("linalg.eigh", A)
    values, vectors = LinalgEigh.apply(A, _lower("linalg.eigh", UPLO))
    return given(out, Eigh((values, columns_first(vectors))))


def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Any:
    """The eigenvalues of Hermitian matrices, in ascending order."""
    need_matrices("linalg.eigvalsh", A)
    return given(out, LinalgEigh.apply(A, _lower("linalg.eigvalsh", UPLO))[0])


def _finite(name: str, A: Tensor) -> Any:
    if not np.isfinite(host.to_numpy(A)).all():
        raise LinAlgError(
            f"{name}: input tensor should not contain infs or NaNs.",
            expected="finite elements",
            got=describe("A", A),
            fix="look for the first operation that gave them, with autograd.detect_anomaly()",
        )
    return A


def eig(A: Tensor, *, out: tuple[Tensor, ...] | None = None) -> Any:
    """(eigenvalues, eigenvectors of norm 1) of square matrices, complex."""
    _finite("torch.linalg.eig", need_matrices("linalg.eig", A))
    values, vectors = LinalgEig.apply(A)
    return given(out, Eig((values, columns_first(vectors))), converts=True)


def eigvals(A: Tensor, *, out: Tensor | None = None) -> Any:
    """The eigenvalues of square matrices, complex."""
    _finite("torch.linalg.eigvals", need_matrices("linalg.eigvals", A))
    return given(out, LinalgEig.apply(A)[0])


# -- singular values ---------------------------------------------------------------------------------------------------


def svd(
    A: Tensor, full_matrices: bool = True, *, driver: object = None, out: Tensor | None = None
) -> Any:
    """(U, S, V^H) with A = U diag(S) V^H, singular values in descending order."""
    need_matrices("linalg.svd", A, square=False)
    return given(out, Svd(_svd(A, full_matrices)))


def _svd(A: Tensor, whole: bool) -> tuple[Any, Any, Any]:
    u, s, vh = LinalgSvd.apply(A)
    rows, columns = A._shape[-2:]
    if whole and rows != columns:  # what is added is free to choose, and has no derivative
        wide, _, high = lapack("linalg.svd", np.linalg.svd, host.to_numpy(A), full_matrices=True)
        count = min(rows, columns)
        if rows > columns:
            u = cat([u, host.from_numpy(wide[..., count:], A._dtype)], -1)
        else:
            vh = cat([vh, host.from_numpy(high[..., count:, :], A._dtype)], -2)
    return columns_first(u), s, columns_first(vh)


def svdvals(A: Tensor, *, driver: object = None, out: Tensor | None = None) -> Any:
    """The singular values, in descending order."""
    need_matrices("linalg.svdvals", A, square=False)
    return given(out, LinalgSvd.apply(A)[1])


def legacy_svd(
    input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Tensor | None = None
) -> Any:
    """(U, S, V) with input = U diag(S) V^H; zeros for U and V unless `compute_uv`."""
    need_matrices("svd", input, "input", False)
    if not compute_uv:
        rows, columns = input._shape[-2:]
        lead, kind = input._shape[:-2], input._dtype
        s = LinalgSvd.apply(input)[1]
        parts = (full((*lead, rows, rows), 0, kind), s, full((*lead, columns, columns), 0, kind))
        return given(out, LegacySvd(parts))
    u, s, vh = _svd(input, not some)
    return given(out, LegacySvd((u, s, adjoint(vh))))


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Any, Any, Any]:
    """(U, S, V) of about the q largest singular values, by a random projection.

    Source: Halko, Martinsson and Tropp (2009), algorithm 5.1.
    """
    from weft.random import randn

    if A._dtype.category == 2 and A._dtype.itemsize == 2:
        raise no_kernel("geqrf_cpu", A, "float32 or float64")
    A = A if M is None else A - M
    wide = A._shape[-2] < A._shape[-1]
    matrix = adjoint(A) if wide else A
    start = randn(*matrix._shape[:-2], matrix._shape[-1], q or 6, dtype=A._dtype)
    basis = _qr(matrix @ start)[0]
    for _ in range(niter or 2):
        basis = _qr(adjoint(matrix) @ basis)[0]
        basis = _qr(matrix @ basis)[0]
    u, s, vh = LinalgSvd.apply(adjoint(basis) @ matrix)
    u, v = basis @ u, adjoint(vh)
    return (v, s, u) if wide else (u, s, v)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """(U, S, V) of the principal components of the rows of A."""
    need_tensor("pca_lowrank", A, "A")
    rows, columns = A._shape[-2:]
    q = min(6, rows, columns) if q is None else q
    if not 0 <= q <= min(rows, columns):
        raise ArgumentError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(rows, columns)}",
            expected=f"0 <= q <= {min(rows, columns)}",
            got=str(q),
            fix="ask for fewer components",
        )
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


# -- QR ----------------------------------------------------------------------------------------------------------------


def _qr(A: Tensor) -> tuple[Any, Any]:
    """The thin factors; of a wide matrix by its first columns."""
    rows, columns = A._shape[-2:]
    if rows >= columns:
        return tuple(map(columns_first, LinalgQr.apply(A)))  # type: ignore[return-value]
    q, r = map(columns_first, LinalgQr.apply(A[..., :rows]))
    return q, columns_first(cat([r, adjoint(q) @ A[..., rows:]], -1))


def qr(A: Tensor, mode: str = "reduced", *, out: Tensor | None = None) -> Any:
    """(Q, R) with A = Q R; mode "reduced", "complete" (all columns of Q), or "r" (an empty Q)."""
    need_matrices("linalg.qr", A, square=False)
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'",
            expected="'reduced', 'complete' or 'r'",
            got=repr(mode),
            fix="choose one of these",
        )
    rows, columns = A._shape[-2:]
    if mode == "complete" and rows > columns:
        pair = host.answering(lapack_batches.qr, matrix_batches.matrices(A), rows)
        parts = [x.tensor() for x in pair]
        return given(out, Qr(map(columns_first, parts)))
    q, r = _qr(A)
    if mode == "r":
        q, r = full((0,), 0, A._dtype), r.detach()
    return given(out, Qr((q, r)))


def legacy_qr(input: Tensor, some: bool = True, *, out: Tensor | None = None) -> Any:
    """(Q, R) with input = Q R, thin if `some`."""
    return given(out, LegacyQr(qr(input, "reduced" if some else "complete")))


# -- made of these -----------------------------------------------------------------------------------------------------


def _limit(A: Tensor, largest: Array, atol: TensorLike | None, rtol: TensorLike | None) -> Any:
    """Below what a singular value counts as 0. Shapes: as `largest`, an array."""
    values = [None if t is None else _tolerance(t) for t in (atol, rtol)]
    absolute, relative = values
    if relative is None:
        eps = np.finfo(A._dtype.to_real().numpy).eps * max(A._shape[-2:])
        relative = eps if absolute is None else np.where(absolute > 0, 0.0, eps)
    absolute = 0.0 if absolute is None else absolute
    return np.maximum(absolute, relative * largest)


def _tolerance(tolerance: TensorLike) -> Any:
    """A tolerance as an array. Errors: DTypeError on complex numbers."""
    if isinstance(tolerance, Tensor) and tolerance._dtype.is_complex:
        raise DTypeError(
            "tolerance tensor of complex type is not supported. Got "
            f"{TYPE_NAMES[tolerance._dtype.name]}",
            expected="a real tolerance",
            got=describe("tolerance", tolerance),
            fix="pass .abs() or .real",
        )
    return host.to_numpy(tolerance) if isinstance(tolerance, Tensor) else np.asarray(tolerance)


def _sizes_of_values(name: str, A: Tensor, hermitian: bool) -> Any:
    """Absolute eigenvalues or singular values, as an array."""
    array = host.to_numpy(A)
    if hermitian:
        return np.abs(lapack(name, np.linalg.eigvalsh, array))
    return lapack(name, np.linalg.svd, array, compute_uv=False)


def matrix_rank(
    A: Tensor,
    tol: TensorLike | None = None,
    hermitian: bool = False,
    *,
    atol: TensorLike | None = None,
    rtol: TensorLike | None = None,
    out: Tensor | None = None,
) -> Any:
    """The number of singular values above max(atol, rtol * the largest)."""
    need_matrices("linalg.matrix_rank", A, square=hermitian)
    if tol is not None:
        atol, rtol = tol, 0.0
    values = _sizes_of_values("linalg.matrix_rank", A, hermitian)
    if not values.size:
        return given(out, full(values.shape[:-1], 0, dtypes.int64))
    limit = _limit(A, values.max(-1), atol, rtol)
    counts = (values > np.asarray(limit)[..., None]).sum(-1)
    return given(out, host.from_numpy(np.asarray(counts, np.int64)))


def pinv(
    A: Tensor,
    rcond: Tensor | float | None = None,
    hermitian: bool = False,
    *,
    atol: TensorLike | None = None,
    rtol: TensorLike | None = None,
    out: Tensor | None = None,
) -> Any:
    """The pseudoinverse: singular values up to max(atol, rtol * the largest) count as 0."""
    need_matrices("linalg.pinv", A, square=hermitian)
    if rcond is not None:
        rtol = rcond
    if 0 in A._shape:
        return given(out, call("clone", A.mT))
    array = host.to_numpy(A)
    if hermitian:
        values, vectors = lapack("linalg.pinv", np.linalg.eigh, array)
        left, right = vectors, np.swapaxes(vectors.conj(), -1, -2)
    else:
        u, values, vh = lapack("linalg.pinv", np.linalg.svd, array, full_matrices=False)
        left, right = np.swapaxes(vh.conj(), -1, -2), np.swapaxes(u.conj(), -1, -2)
    size = np.abs(values)
    kept = size > np.asarray(_limit(A, size.max(-1), atol, rtol))[..., None]
    inverted = np.where(kept, 1 / np.where(kept, values, 1), 0)
    return given(out, LinalgPinv.apply(A, (left * inverted[..., None, :]) @ right))


def pinverse(input: Tensor, rcond: float = 1e-15) -> Any:
    """The pseudoinverse: singular values up to rcond times the largest count as 0."""
    return pinv(input, rcond)


def cond(A: Tensor, p: object = None, *, out: Tensor | None = None) -> Any:
    """The condition number in a norm: the ratio of singular values (2, -2), else |A| |A^-1|."""
    from weft.functional.linalg.norms import matrix_norm

    need_matrices("linalg.cond", A, square=p not in (None, 2, -2))
    if p in (None, 2, -2):
        values = LinalgSvd.apply(A)[1]
        if not values._shape[-1]:
            return given(out, full(A._shape[:-2], 0, values._dtype))
        ratio = values[..., 0] / values[..., -1] if p != -2 else values[..., -1] / values[..., 0]
        return given(out, ratio)
    if p not in ("fro", "nuc", math.inf, -math.inf, 1, -1):
        raise ArgumentError(
            f"linalg.cond got an invalid norm type: {p}",
            expected="None, 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2",
            got=repr(p),
            fix="choose one of these",
        )
    if 0 in A._shape:
        return given(out, full(A._shape[:-2], 0, A._dtype.to_real()))
    inverse, info = inv_ex(A)
    result = matrix_norm(A, p) * matrix_norm(inverse, p)
    return given(out, where(info == 0, result, math.inf))


legacy_svd.__name__, legacy_qr.__name__ = "svd", "qr"
publish(globals())
