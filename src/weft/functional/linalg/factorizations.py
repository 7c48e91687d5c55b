# ruff: noqa: A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Factors of matrices as differentiable primitives: LAPACK computes them on values read at the call.

Each is a Function whose `vjp` is the cotangent of the matrix in terms of the factors, written in recorded operations:
so it can be differentiated again, and forward mode is its transpose. What users call is in `solve` and
`decompositions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.functional.linalg.factored import (
    Factored,
    adjoint,
    check_converged,
    check_definite,
    check_regular,
    decomposes_here,
    diagonal_matrix,
    divided,
    each,
    keep,
    lapack,
    mirrored,
)
from weft.functional.support import host, lapack_batches, lapack_decompositions, matrix_batches
from weft.functional.support.blas_threads import limited
from weft.functional.support.matrix_batches import Matrices, matrices
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import where

if TYPE_CHECKING:
    from weft.autograd.custom.context import FunctionCtx

    Matrix = Tensor | Matrices  # what rules are made of: `Factored.backward`

require(__name__, cython.compiled)


def solved(a: Matrix, b: Matrix) -> Any:
    """X with A X = B, for matrices that have been found to be regular, or their adjoints."""
    if isinstance(a, Matrices) and isinstance(b, Matrices):
        return lapack_batches.solve(a, b)[0]
    return LinalgSolveEx.apply(a, b)


class LinalgSolveEx(Factored):
    """A X = B for X."""

    of_values = True

    @staticmethod
    def forward(ctx: FunctionCtx, a: Tensor, b: Tensor, name: str = "linalg.solve") -> Any:
        """X. Errors: LinAlgError, in the words of the function `name`."""
        found, infos = host.answering(lapack_batches.solve, *_beside(matrices(a), matrices(b)))
        check_regular(name, infos)
        x = found.tensor()
        return keep(ctx, LinalgSolveEx.rule, (x,), a, x)

    @staticmethod
    def rule(saved: tuple[Tensor, ...], g: Tensor) -> Any:
        """The transposed system."""
        a, x = saved
        right = solved(adjoint(a), g)
        return -(right @ adjoint(x)), right, None


class LinalgInvEx(Factored):
    """The inverse."""

    @staticmethod
    def forward(ctx: FunctionCtx, a: Tensor, name: str = "linalg.inv") -> Any:
        """A^-1. Errors: LinAlgError, in the words of the function `name`."""
        ones = matrices(np.eye(a._shape[-1], dtype=a._dtype.numpy))
        found, infos = host.answering(lapack_batches.solve, *_beside(matrices(a), ones))
        check_regular(name, infos)
        x = found.tensor()
        return keep(ctx, LinalgInvEx.rule, (x,), x)

    @staticmethod
    def rule(saved: tuple[Tensor, ...], g: Tensor) -> Any:
        """-X^H g X^H."""
        (x,) = saved
        turned = adjoint(x)
        return -(turned @ g @ turned), None


def substituted(a: Matrix, b: Matrix, upper: bool, unit: bool = False) -> Any:
    """X with A X = B, A upper or lower triangular (the other half is not read)."""
    if isinstance(a, Matrices) and isinstance(b, Matrices):
        return _substituted(a, b, upper, unit)
    return LinalgSolveTriangular.apply(a, b, upper, unit)


class LinalgSolveTriangular(Factored):
    """A X = B for X, A upper or lower triangular (the other half is not read)."""

    of_values = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, upper: bool, unit: bool) -> Any:
        """X."""
        x = _substituted(*_beside(matrices(a), matrices(b)), upper, unit).tensor()
        keep(ctx, None, (x,), a, x)
        ctx.rule = lambda saved, g: LinalgSolveTriangular.rule(saved, g, upper, unit)
        return x

    @staticmethod
    def rule(saved: tuple[Tensor, ...], g: Tensor, upper: bool, unit: bool) -> Any:
        """The transposed system, and the triangle of the product."""
        a, x = saved
        right = substituted(adjoint(a), g, not upper, unit)
        product = -(right @ adjoint(x))
        part = product.triu(int(unit)) if upper else product.tril(-int(unit))
        return part, right, None, None


def _beside(one: Matrices, other: Matrices) -> tuple[Matrices, Matrices]:
    """Two batches in the dimensions that they are expanded to."""
    if one.lead == other.lead:
        return one, other
    lead = np.broadcast_shapes(one.lead, other.lead)
    return matrix_batches.expanded(one, lead), matrix_batches.expanded(other, lead)


def _substituted(a: Matrices, b: Matrices, upper: bool, unit: bool) -> Any:
    """Back substitution; a zero on the diagonal gives infinities, as in LAPACK."""
    if unit or not lapack_batches.has_zero_pivot(a):
        return host.answering(lapack_batches.substitute, a, b, upper, unit)
    arrays = matrix_batches.array_of(a), matrix_batches.array_of(b)
    found = each(lambda one, other: (_single(one, other, upper),), *arrays)
    return matrices(found[0])


def _single(a: np.ndarray, b: np.ndarray, upper: bool) -> Any:
    """Substitution in one triangle."""
    if a.diagonal().all():
        return lapack_batches.call(lapack_batches.substitute, a, b, upper, False)
    return _by_rows(np.triu(a) if upper else np.tril(a), b, upper)


def _by_rows(a: np.ndarray, b: np.ndarray, upper: bool) -> Any:
    """Substitution that divides by zeros."""
    x = np.zeros_like(b)
    order = range(len(a) - 1, -1, -1) if upper else range(len(a))
    with np.errstate(all="ignore"):
        for row in order:
            x[row] = (b[row] - a[row] @ x) / a[row, row]
    return x


def solved_by_factor(factor: Matrix, b: Matrix, upper: bool) -> Any:
    """X with A X = B, given the Cholesky factor of A, whose diagonal has no 0."""
    if isinstance(factor, Matrices) and isinstance(b, Matrices):
        return lapack_batches.cholesky_solve(factor, b, upper)
    return CholeskySolve.apply(factor, b, upper)


def by_factor(factor: Matrix, g: Matrix, upper: bool) -> Any:
    """The cotangent of a Cholesky factor, from that of the product which it stands for."""
    both = g + adjoint(g)
    return (factor @ both).triu() if upper else (both @ factor).tril()


class CholeskySolve(Factored):
    """A X = B for X, given the Cholesky factor of A, whose diagonal has no 0."""

    of_values = True

    @staticmethod
    def forward(ctx: Any, factor: Tensor, b: Tensor, upper: bool) -> Any:
        """X."""
        known = matrices(factor), matrices(b)
        x = host.answering(lapack_batches.cholesky_solve, *known, upper).tensor()
        keep(ctx, None, (x,), factor, x)
        ctx.rule = lambda saved, g: CholeskySolve.rule(saved, g, upper)
        return x

    @staticmethod
    def rule(saved: tuple[Tensor, ...], g: Tensor, upper: bool) -> Any:
        """The same system, which is Hermitian."""
        factor, x = saved
        right = solved_by_factor(factor, g, upper)
        return by_factor(factor, -(right @ adjoint(x)), upper), right, None


class LinalgCholeskyEx(Factored):
    """A = L L^H of Hermitian positive definite matrices; reads the lower triangle."""

    of_values = True

    @staticmethod
    def forward(ctx: FunctionCtx, a: Tensor, name: str = "") -> Any:
        """(L, per matrix 0 or the order of the first minor that is not positive definite); with the `name` of a
        function L alone. Errors: LinAlgError then, where there is such a minor."""
        factor, info = host.answering(lapack_batches.cholesky, matrices(a))
        lower = factor.tensor()
        if name:
            check_definite(name, info)
            return keep(ctx, LinalgCholeskyEx.rule, (lower,), lower)
        infos = host.from_numpy(info)
        ctx.mark_non_differentiable(infos)
        return keep(ctx, LinalgCholeskyEx.rule, (lower, infos), lower)

    @staticmethod
    def rule(saved: tuple[Tensor, ...], g: Tensor, _: Tensor | None = None) -> Any:
        """Source: Murray (2016), symmetrised."""
        turned = adjoint(saved[0])
        half = substituted(turned, 0.5 * mirrored(turned @ g), True)
        return adjoint(substituted(turned, adjoint(half), True)), None


class LinalgEigh(Factored):
    """Eigenvalues (ascending) and orthonormal eigenvectors of Hermitian matrices."""

    @staticmethod
    def forward(ctx: FunctionCtx, a: Tensor, lower: bool) -> Any:
        """(w, V)."""
        if decomposes_here(a):
            values, vectors, infos = host.answering(lapack_decompositions.eigh, matrices(a), lower)
            check_converged("linalg.eigh", a, infos)
            w, v = host.from_numpy(values), vectors.tensor()
        else:
            found = lapack(
                "linalg.eigh", np.linalg.eigh, host.to_numpy(a), UPLO="L" if lower else "U"
            )
            w = host.from_numpy(found[0], a._dtype.to_real())
            v = host.from_numpy(found[1], a._dtype)
        return keep(ctx, LinalgEigh.rule, (w, v), w, v)

    @staticmethod
    def rule(saved: tuple[Tensor, ...], values: Tensor | None, vectors: Tensor | None) -> Any:
        """The derivative rule; `divided` says what it means where eigenvalues repeat."""
        w, v = saved
        inner = None if values is None else cast(diagonal_matrix(values), v._dtype)
        if vectors is not None:
            turned = adjoint(v) @ vectors
            gap = w.unsqueeze(-2) - w.unsqueeze(-1)
            spin = 0.5 * divided(turned, gap, values)
            inner = spin if inner is None else inner + spin
        return v @ inner @ adjoint(v), None


class LinalgEig(Factored):
    """Eigenvalues and normalised eigenvectors of square matrices, complex."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Any:
        """(w, V)."""
        found = lapack("linalg.eig", np.linalg.eig, host.to_numpy(a))
        kind = a._dtype.to_complex()
        w, v = (host.from_numpy(part, kind) for part in found)
        real = not a._dtype.is_complex
        keep(ctx, None, (w, v), w, v)
        ctx.rule = lambda saved, *g: LinalgEig.rule(saved, real, *g)
        return w, v

    @staticmethod
    def rule(
        saved: tuple[Tensor, ...], real: bool, values: Tensor | None, vectors: Tensor | None
    ) -> Any:
        """Source: Boeddeker et al. (2017), with the norm of the vectors held at 1."""
        w, v = saved
        turned = adjoint(v)
        inner = None if values is None else diagonal_matrix(values)
        if vectors is not None:
            product = turned @ vectors
            norms = call("real", product.diagonal(0, -2, -1)).unsqueeze(-2)
            product = product - (turned @ v) * norms
            gap = call("conj", w.unsqueeze(-2) - w.unsqueeze(-1))
            off = host.from_numpy(~np.eye(w._shape[-1], dtype=bool))
            spin = where(off, product / where(off, gap, 1), 0)
            inner = spin if inner is None else inner + spin
        result = solved(turned, inner @ turned)
        return call("real", result) if real else result


class LinalgQr(Factored):
    """A = Q R of matrices that are at least as high as wide, Q as wide as A."""

    of_values = True

    @staticmethod
    def forward(ctx: FunctionCtx, a: Tensor) -> Any:
        """(Q, R)."""
        found = host.answering(lapack_batches.qr, matrices(a), a._shape[-1])
        q, r = found[0].tensor(), found[1].tensor()
        return keep(ctx, LinalgQr.rule, (q, r), q, r)

    @staticmethod
    def rule(saved: tuple[Tensor, ...], left: Tensor | None, right: Tensor | None) -> Any:
        """Source: Walter and Lehmann (2018)."""
        q, r = saved
        inner: Any = None if right is None else r @ adjoint(right.triu())
        if left is not None:
            part = adjoint(left) @ q
            inner = -part if inner is None else inner - part
        total = q @ mirrored(inner)
        total = total if left is None else left + total
        return adjoint(substituted(r, adjoint(total), True))


class LinalgLu(Factored):
    """The factors of square matrices that need no exchange of rows, below and above the diagonal of one matrix."""

    of_values = True

    @staticmethod
    def forward(ctx: FunctionCtx, a: Tensor, factors: np.ndarray) -> Any:
        """L - 1 + U, as computed before."""
        made = host.from_numpy(factors, a._dtype)
        return keep(ctx, LinalgLu.rule, (made,), made)

    @staticmethod
    def rule(saved: tuple[Tensor, ...], g: Tensor) -> Any:
        """L^-H (tril(L^H gL, -1) + triu(gU U^H)) U^-H."""
        (factors,) = saved
        lower, upper, below = factors.tril(-1), factors.triu(), g.tril(-1)
        by_lower = (adjoint(lower) @ below + below).tril(-1)
        inner = by_lower + (g.triu() @ adjoint(upper)).triu()
        left = substituted(adjoint(lower), inner, True, True)
        return adjoint(substituted(upper, adjoint(left), True)), None


class LinalgPinv(Factored):
    """The pseudoinverse, given; its derivative where the rank stays."""

    @staticmethod
    def forward(ctx: FunctionCtx, a: Tensor, array: np.ndarray) -> Any:
        """A^+, as computed before."""
        made = host.from_numpy(array, a._dtype)
        return keep(ctx, LinalgPinv.rule, (made,), a, made)

    @staticmethod
    def rule(saved: tuple[Tensor, ...], g: Tensor) -> Any:
        """Source: Golub and Pereyra (1973)."""
        a, p = saved
        turned, up = adjoint(g), adjoint(p)
        product = turned @ p
        wide = product @ up
        result = -adjoint(p @ product) + wide - (a @ p) @ wide + (up @ p) @ (turned - product @ a)
        return result, None


class LinalgMatrixExp(Factored):
    """The exponential of square matrices."""

    @staticmethod
    def forward(ctx: FunctionCtx, a: Tensor) -> Any:
        """exp(A)."""
        made = host.from_numpy(_exponential(host.to_numpy(a)), a._dtype)
        return keep(ctx, LinalgMatrixExp.rule, (made,), a)

    @staticmethod
    def rule(saved: tuple[Tensor, ...], g: Tensor) -> Any:
        """The corner of the exponential of [[A^H, g], [0, A^H]]. Source: Al-Mohy and Higham (2009)."""
        from weft.functional.shape.concat import cat

        (a,) = saved
        size = a._shape[-1]
        turned = adjoint(a)
        upper = cat([turned, g.expand(turned._shape)], -1)
        lower = cat([turned * 0, turned], -1)
        return LinalgMatrixExp.apply(cat([upper, lower], -2))[..., :size, size:]


def _exponential(array: np.ndarray) -> Any:
    from scipy.linalg import expm

    wide = array.astype(
        np.result_type(array.dtype, np.float64)
    )  # its steps lose more than a float has
    return limited(expm, 0)(wide) if array.size else array  # it spins on few rows too
