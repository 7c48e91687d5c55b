# ruff: noqa: A001, A002 - PyTorch's names
"""LU factors of matrices, and systems solved with them.

The compact factors of LAPACK are read at the call; those of the leading square block have a derivative of their own,
and the rest follows from them by substitution.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.api.api_function import publish
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import broadcast_shapes
from weft.errors import ArgumentError, ShapeError
from weft.functional.linalg.factored import adjoint as conjugated
from weft.functional.linalg.factored import (
    check_regular,
    each,
    identity,
    is_plain,
    need_matrices,
    need_same,
)
from weft.functional.linalg.factorizations import LinalgLu
from weft.functional.linalg.lapack_primitives import of_matrices
from weft.functional.linalg.solve import need_rows, substituted
from weft.functional.shape.concat import cat
from weft.functional.support import host, lapack_batches, lapack_lu, matrix_batches
from weft.functional.support.matrix_batches import Matrices, matrices
from weft.functional.support.memory_formats import columns_first
from weft.functional.support.return_types import result_type
from weft.functional.support.variants import given
from weft.ops.primitives import full
from weft.tensor.arguments import describe, need_tensor

if TYPE_CHECKING:
    from weft._typing import Array


Lu = result_type("linalg_lu")
LuFactor = result_type("linalg_lu_factor")
LuFactorEx = result_type("linalg_lu_factor_ex")
LuWithInfo = result_type("_lu_with_info")


def _lu_factors(A: Tensor, pivot: bool) -> tuple[Matrices, Any, Any]:
    """Compact factors, pivots from 1, infos."""
    if pivot:
        found: tuple[Matrices, Any, Any] = host.answering(lapack_lu.lu, matrices(A))
        return found
    factors, pivots, infos = each(_without_pivots, host.to_numpy(A))
    return matrices(factors), np.asarray(pivots, np.int32), np.asarray(infos, np.int32)


def _without_pivots(matrix: Array) -> tuple[Any, Any, Any]:
    """Gaussian elimination that exchanges no rows."""
    factors, info = matrix.copy(), 0
    count = min(factors.shape)
    with np.errstate(all="ignore"):
        for k in range(count):
            if factors[k, k] == 0 and not info:
                info = k + 1
            factors[k + 1 :, k] /= factors[k, k]
            factors[k + 1 :, k + 1 :] -= np.outer(factors[k + 1 :, k], factors[k, k + 1 :])
    return factors, np.arange(1, count + 1, dtype=np.int32), np.int32(info)


def _check_pivots(pivots: np.ndarray, rows: int, low: str, high: str) -> None:
    """Errors: ArgumentError, in the words for what is too low or too high, for pivots outside 1 .. rows."""
    if ((pivots < 1) | (pivots > rows)).any():
        problem = low if (pivots < 1).any() else high
        raise ArgumentError(
            f"{problem}Did you properly pass the result of lu_factor?",
            expected=f"pivots from 1 to {rows}",
            got=str(pivots.tolist()),
            fix="pass the pivots of lu_factor",
        )


def _orders(pivots: np.ndarray, rows: int) -> Any:
    """The row of A that moves to each position."""
    orders = []
    for exchanges in pivots.reshape((math.prod(pivots.shape[:-1]), pivots.shape[-1])).tolist():
        order = list(range(rows))
        for place, other in enumerate(exchanges):
            order[place], order[other - 1] = order[other - 1], order[place]
        orders.append(order)
    return np.array(orders, np.int64).reshape((*pivots.shape[:-1], rows))


def _factored(A: Tensor, pivot: bool) -> tuple[Any, Any, Any]:
    """(compact factors, pivots and infos as arrays), with derivatives."""
    factors, pivots, infos = _lu_factors(A, pivot)
    if 0 in A._shape or is_plain(A):
        return columns_first(factors.tensor()), pivots, infos
    rows, columns = A._shape[-2:]
    count = min(rows, columns)
    order = host.from_numpy(_orders(pivots, rows)).unsqueeze(-1).expand(A._shape)
    turned = A.gather(-2, order)
    known = matrix_batches.array_of(factors)[..., :count, :count]
    square = LinalgLu.apply(turned[..., :count, :count], np.ascontiguousarray(known))
    if columns > rows:
        beside = substituted(square, turned[..., count:], False, True, True)
        square = cat([square, beside], -1)
    if rows > columns:
        below = substituted(square, turned[..., count:, :], True, False)
        square = cat([square, below], -2)
    return columns_first(square), pivots, infos


def lu_factor_ex(
    A: Tensor,
    *,
    pivot: bool = True,
    check_errors: bool = False,
    out: tuple[Tensor, ...] | None = None,
) -> Any:
    """(compact LU factors, pivots from 1, info); info is not 0 where U is singular."""
    need_matrices("linalg.lu_factor_ex", A, square=False)
    factors, pivots, infos = _factored(A, pivot)
    if check_errors:
        check_regular("torch.linalg.lu_factor_ex", infos)
    return given(out, LuFactorEx((factors, host.from_numpy(pivots), host.from_numpy(infos))))


def lu_factor(A: Tensor, *, pivot: bool = True, out: Tensor | None = None) -> Any:
    """(compact LU factors, pivots from 1). Errors: LinAlgError where U is singular; `lu_factor_ex` says so in info."""
    need_matrices("torch.linalg.lu_factor", A, square=False)
    factors, pivots, infos = _factored(A, pivot)
    check_regular("torch.linalg.lu_factor", infos)
    return given(out, LuFactor((factors, host.from_numpy(pivots))))


def legacy_lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: Tensor | None = None
) -> Any:
    """(compact LU factors, pivots from 1), and infos on request."""
    result = tuple(lu_factor_ex(A, pivot=pivot))
    return given(out, LuWithInfo(result) if get_infos else result[:2], converts=True)


def linalg_lu(A: Tensor, *, pivot: bool = True, out: tuple[Tensor, ...] | None = None) -> Any:
    """(P, L, U) with A = P L U."""
    need_matrices("linalg.lu", A, square=False)
    if pivot and A.numel() and is_plain(A):
        compact, exchanges, _ = _lu_factors(A, pivot)
        parts = (lapack_lu.permutations(compact, exchanges), *lapack_lu.lu_parts(compact))
        return given(out, Lu(tuple([part.tensor() for part in parts])))
    factors, pivots, _ = _factored(A, pivot)
    p, lower, upper = lu_unpack(factors, host.from_numpy(pivots))
    if not pivot:
        p = full((0,), 0, A._dtype)
    return given(out, Lu((p, lower, upper)))


def lu_unpack(
    LU_data: Tensor,
    LU_pivots: Tensor,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
    *,
    out: Tensor | None = None,
) -> Any:
    """(P, L, U) of compact factors and pivots; empty tensors for what is not asked for."""
    need_tensor("lu_unpack", LU_data, "LU_data")
    if LU_pivots._dtype is not dtypes.int32:
        raise ArgumentError(
            "lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype. Note: this function is "
            "intended to be used with the output produced by torch.linalg.lu_factor",
            expected="int32 pivots",
            got=describe("LU_pivots", LU_pivots),
            fix="convert them with .int()",
        )
    rows, columns = LU_data._shape[-2:]
    count = min(rows, columns)
    empty = full((0,), 0, LU_data._dtype)
    p = lower = upper = empty
    if unpack_data:
        lower = LU_data[..., :, :count].tril(-1) + host.from_numpy(
            np.eye(rows, count), LU_data._dtype
        )
        upper = LU_data[..., :count, :].triu()
    if unpack_pivots:
        words = "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
        _check_pivots(host.to_numpy(LU_pivots), rows, words, words)
        orders = _orders(host.to_numpy(LU_pivots), rows)
        p = host.from_numpy(np.swapaxes(np.eye(rows)[orders], -1, -2), LU_data._dtype)
    return given(out, result_type("lu_unpack")((p, lower, upper)))


def lu_solve_factored(
    LU: Tensor,
    pivots: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Tensor | None = None,
) -> Any:
    """X with A X = B (X A = B unless `left`; A^H instead of A if `adjoint`), given the LU factors of A."""
    need_matrices("linalg.lu_solve", LU, "LU")
    need_matrices("linalg.lu_solve", B, "B", False)
    need_same(
        "linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type {0} and B of type {1} instead",
        LU,
        B,
    )
    if pivots._dtype is not dtypes.int32:
        raise ArgumentError(
            "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32",
            expected="int32 pivots",
            got=describe("pivots", pivots),
            fix="convert them with .int()",
        )
    if LU._shape[:-1] != pivots._shape:
        raise ShapeError(
            "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix",
            expected=f"pivots of shape {list(LU._shape[:-1])}",
            got=describe("pivots", pivots),
            fix="pass the pivots of lu_factor",
        )
    need_rows("linalg.lu_solve", LU, B, left)
    _check_pivots(
        host.to_numpy(pivots),
        LU._shape[-1],
        "Pivots given to lu_solve must all be greater or equal to 1. ",
        "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). ",
    )
    lead = broadcast_shapes([LU._shape[:-2], B._shape[:-2]], "linalg.lu_solve")
    made = _solved(
        LU, pivots, B if lead == B._shape[:-2] else B.expand(*lead, *B._shape[-2:]), left, adjoint
    )
    return given(out, columns_first(made) if left else made.contiguous())


def _solved(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, turned: bool) -> Any:
    """X by LAPACK where it has a routine for it, with the derivatives of substitutions."""
    if not left or 0 in B._shape or LU._shape[:-2] != B._shape[:-2]:
        return _back(LU, pivots, B, left, turned)
    exchanges = np.ascontiguousarray(host.to_numpy(pivots))
    if lapack_batches.has_zero_pivot(matrices(LU)):  # zeros give infinities
        return _back(LU, pivots, B, left, turned)

    def compute(lu: Matrices, b: Matrices) -> Any:
        return host.answering(lapack_lu.lu_solve, lu, exchanges, b, turned)

    def rule(lu: Tensor, b: object, x: Tensor, g: Tensor) -> Any:
        right = _solved(lu, pivots, g, True, not turned)
        outer = -(x @ conjugated(right)) if turned else -(right @ conjugated(x))
        return _by_factors(lu, pivots, outer), right

    return of_matrices("LinalgLuSolve", compute, rule)(LU, B)


def _by_factors(LU: Tensor, pivots: Tensor, g: Tensor) -> Any:
    """The cotangent of compact factors, from that of the matrix A = P L U."""
    turned = _rows(g, _orders(host.to_numpy(pivots), LU._shape[-1]))
    lower = LU.tril(-1) + identity(LU._shape[-1], LU._dtype)
    by_lower = (turned @ conjugated(LU.triu())).tril(-1)
    return by_lower + (conjugated(lower) @ turned).triu()


def _back(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, turned: bool) -> Any:
    if not left:  # X A = B is A^H X^H = B^H
        return conjugated(_back(LU, pivots, conjugated(B), True, not turned))
    orders = _orders(host.to_numpy(pivots), LU._shape[-1])
    if turned:  # A^H = U^H L^H P^T
        half = substituted(conjugated(LU), B, False)
        half = substituted(conjugated(LU), half, True, True, True)
        orders = np.argsort(orders, -1)
        return _rows(half, orders)
    half = substituted(LU, _rows(B, orders), False, True, True)
    return substituted(LU, half, True)


def _rows(x: Tensor, orders: np.ndarray) -> Any:
    """The rows of matrices in another order."""
    index = host.from_numpy(np.ascontiguousarray(np.broadcast_to(orders, x._shape[:-1])))
    return x.gather(-2, index.unsqueeze(-1).expand(x._shape))


def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Any:
    """X with A X = b, given the LU factors of A."""
    return lu_solve_factored(LU_data, LU_pivots, b, out=out)


legacy_lu.__name__, lu_solve_factored.__name__, linalg_lu.__name__ = "lu", "lu_solve", "lu"
publish(globals())
