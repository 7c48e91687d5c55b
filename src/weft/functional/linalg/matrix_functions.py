# ruff: noqa: A001, A002 - PyTorch's names
"""Functions of matrices that are products and decompositions of others: powers, exponential, chains, tensor inverses,
LDL factors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft._typing import Shape
from weft.engine.api.api_function import publish
from weft.engine.dispatch.type_names import TYPE_NAMES
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, DTypeError, ShapeError
from weft.functional.linalg.factored import OTHER_TYPE, each, identity, need_matrices, need_same
from weft.functional.linalg.factorizations import LinalgMatrixExp
from weft.functional.linalg.solve import inv, solve
from weft.functional.support import host
from weft.functional.support.memory_formats import columns_first
from weft.functional.support.not_differentiable import underived
from weft.functional.support.return_types import result_type
from weft.functional.support.variants import given
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full, where
from weft.tensor.arguments import describe, need_tensor, widen

LdlFactor = result_type("linalg_ldl_factor")
LdlFactorEx = result_type("linalg_ldl_factor_ex")


def matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Any:
    """The n-th power of square matrices, by squaring; negative powers are those of the inverse."""
    need_tensor("linalg.matrix_power", A)
    if len(A._shape) < 2 or A._shape[-1] != A._shape[-2]:
        need_matrices("linalg.matrix_power", A)
    if n == 0:
        never = host.from_numpy(
            np.zeros((), bool)
        )  # false: adds the input to the graph with a gradient of 0
        return given(out, where(never, A, identity(A._shape[-1], A._dtype)))
    base, n = (inv(A), -n) if n < 0 else (A, n)
    result = None
    while n:
        if n & 1:
            result = base if result is None else result @ base
        n >>= 1
        base = base @ base if n else base
    return given(out, call("clone", result) if result is A else result)


def matrix_exp(A: Tensor) -> Any:
    """The exponential of square matrices."""
    need_tensor("linalg.matrix_exp", A)
    wide = widen(A)
    need_matrices("linalg.matrix_exp", wide)
    return cast(LinalgMatrixExp.apply(wide), A._dtype)


def multi_dot(tensors: list[Tensor], *, out: Tensor | None = None) -> Any:
    """The product of matrices in the cheapest order; the first and the last may be vectors."""
    parts = list(tensors)
    if len(parts) < 2:
        raise ShapeError(
            "multi_dot(): expected at least 2 tensors but got " + str(len(parts)),
            expected="two tensors or more",
            got=str(len(parts)),
            fix="use the tensor itself",
        )
    for place, part in enumerate(parts):
        allowed = (1, 2) if place in (0, len(parts) - 1) else (2,)
        if len(part._shape) not in allowed:
            raise ShapeError(
                f"multi_dot(): tensor {place} must be {'1D or ' if 1 in allowed else ''}2D but got "
                f"{len(part._shape)}D",
                expected="matrices, vectors at the ends",
                got=describe(f"tensors[{place}]", part),
                fix="use matmul for batches",
            )
        if part._dtype is not parts[0]._dtype:
            raise ShapeError(
                f"multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{TYPE_NAMES[parts[0]._dtype.name]} and tensor {place} {TYPE_NAMES[part._dtype.name]}",
                expected="one dtype",
                got=describe(f"tensors[{place}]", part),
                fix="convert it with .to(dtype)",
            )
    first, last = len(parts[0]._shape) == 1, len(parts[-1]._shape) == 1
    parts[0] = parts[0].unsqueeze(0) if first else parts[0]
    parts[-1] = parts[-1].unsqueeze(1) if last else parts[-1]
    result = _chain(
        parts, _splits([p._shape[0] for p in parts] + [parts[-1]._shape[1]]), 0, len(parts) - 1
    )
    result = result.squeeze(-1) if last else result
    return given(out, result.squeeze(0) if first else result)


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """The position at which to split each chain i .. j so that the fewest multiplications are done."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], split[i, j] = min(options)
    return split


def _chain(parts: list[Tensor], split: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return parts[i]
    k = split[i, j]
    return _chain(parts, split, i, k) @ _chain(parts, split, k + 1, j)


def _count(sizes: Shape) -> int:
    return int(np.prod(sizes, dtype=np.int64))


def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Any:
    """The inverse of what tensordot does with A over its last dimensions; the first `ind` are the others."""
    need_tensor("linalg.tensorinv", A)
    if ind <= 0:
        raise ArgumentError(
            "Expected a strictly positive integer for 'ind' argument.",
            expected="ind > 0",
            got=str(ind),
            fix="say how many dimensions come first",
        )
    rows, columns = A._shape[:ind], A._shape[ind:]
    if _count(rows) != _count(columns):
        raise ShapeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{_count(columns)} != {_count(rows)}",
            expected="as many elements in both parts",
            got=describe("A", A),
            fix="choose ind",
        )
    result = inv(A.reshape(_count(rows), _count(columns)))
    return given(out, result.reshape(*columns, *rows))


def tensorsolve(
    A: Tensor, B: Tensor, dims: Shape | None = None, *, out: Tensor | None = None
) -> Any:
    """X with tensordot(A, X, X.ndim) = B; `dims` of A are moved to the end first."""
    need_tensor("linalg.tensorsolve", A)
    need_tensor("linalg.tensorsolve", B, "B", 2)
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(len(A._shape) - len(dims), len(A._shape))))
    shape = A._shape[len(B._shape) :]
    if _count(shape) != _count(B._shape):
        raise ShapeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {_count(shape)} != {_count(B._shape)}",
            expected="a square system",
            got=f"{describe('A', A)}, {describe('B', B)}",
            fix="choose dims",
        )
    found = solve(A.reshape(_count(B._shape), _count(shape)), B.reshape(-1))
    return given(out, found.reshape(shape))


def linalg_vander(x: Tensor, *, N: int | None = None) -> Any:
    """Powers 0 .. N - 1 of each element, in a last dimension. Errors: DTypeError on truth values."""
    need_tensor("linalg.vander", x, "x")
    if x._dtype.category == 0:
        raise DTypeError(
            f"linalg.vander supports floating point, complex, and integer tensors, but got {TYPE_NAMES[x._dtype.name]}",
            expected="numbers",
            got=describe("x", x),
            fix="convert with .long()",
        )
    x = x if x._shape else x.unsqueeze(0)
    count = x._shape[-1] if N is None else N
    if count < 1:
        raise ArgumentError(
            f"N must be greater than 1. Got {N}",
            expected="N >= 1",
            got=str(N),
            fix="ask for one power or more",
        )
    ones = call("clone", full((*x._shape, 1), 1, x._dtype))
    if count == 1:
        return ones
    from weft.functional.shape.concat import cat

    columns = x.unsqueeze(-1).expand(*x._shape, count - 1)
    return cat([ones, columns.cumprod(-1)], -1)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Any:
    """Powers of the elements of a vector, the highest first unless `increasing`."""
    need_tensor("vander", x, "x")
    if len(x._shape) != 1:
        raise ShapeError(
            "x must be a one-dimensional tensor.",
            expected="a vector",
            got=describe("x", x),
            fix="use linalg.vander for batches",
        )
    count = x._shape[0] if N is None else N
    if count < 0:
        raise ArgumentError(
            "N must be non-negative.",
            expected="N >= 0",
            got=str(count),
            fix="ask for no powers, or some",
        )
    if count == 0:
        return full((x._shape[0], 0), 0, x._dtype)
    if x._dtype is dtypes.bool_:
        x = cast(x, dtypes.int64)
    result = linalg_vander(x, N=count)
    return result if increasing else result.flip(-1)


def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonal of two dimensions (the last, unless given), as a view."""
    return A.diagonal(offset, dim1, dim2)


# -- LDL ---------------------------------------------------------------------------------------------------------------


def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Tensor | None = None
) -> Any:
    """(LD, pivots, info) of symmetric (or Hermitian) matrices, as LAPACK leaves them."""
    need_matrices("torch.linalg.ldl_factor_ex", A)
    name = "hetrf" if hermitian and A._dtype.is_complex else "sytrf"

    def one(matrix: np.ndarray) -> Any:
        if not matrix.size:
            return matrix, np.zeros(0, np.int32), np.int32(0)
        factors, pivots, info = host.routine(name, matrix.dtype)(matrix, lower=1)
        return np.tril(factors), np.asarray(pivots, np.int32), np.int32(info)

    factors, pivots, infos = each(one, host.to_numpy(A))
    made = columns_first(host.from_numpy(factors, A._dtype))
    made = underived("aten::linalg_ldl_factor_ex", made, A)
    return given(out, LdlFactorEx((made, host.from_numpy(pivots), host.from_numpy(infos))))


def ldl_factor(A: Tensor, *, hermitian: bool = False, out: tuple[Tensor, ...] | None = None) -> Any:
    """(LD, pivots) of symmetric (or Hermitian) matrices, as LAPACK leaves them."""
    need_matrices("torch.linalg.ldl_factor", A)
    return given(out, LdlFactor(tuple(ldl_factor_ex(A, hermitian=hermitian))[:2]))


def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None
) -> Any:
    """X with A X = B, given the LDL factors of A."""
    need_matrices("torch.linalg.ldl_solve", LD, "LD")
    need_matrices("torch.linalg.ldl_solve", B, "B", False)
    need_same(OTHER_TYPE, B, LD)
    lead = np.broadcast_shapes(LD._shape[:-2], B._shape[:-2])
    turned = bool(hermitian and LD._dtype.is_complex)

    def one(factors: np.ndarray, places: np.ndarray, right: np.ndarray) -> Any:
        return (_ldl_substituted(factors, places, right, turned),)

    arrays = [
        np.broadcast_to(host.to_numpy(x), (*lead, *x._shape[len(x._shape) - keep :]))
        for x, keep in ((LD, 2), (pivots, 1), (B, 2))
    ]
    found = each(one, *arrays)[0] if 0 not in lead else np.zeros(arrays[2].shape)
    made = columns_first(host.from_numpy(found, B._dtype))
    return given(out, underived("aten::linalg_ldl_solve", made, LD, B))


def _ldl_substituted(
    factors: np.ndarray, pivots: np.ndarray, right: np.ndarray, turned: bool
) -> Any:
    """Solve with the factors as LAPACK leaves them."""
    if not right.size:
        return right
    solve_ = host.routine("hetrs" if turned else "sytrs", factors.dtype)
    return solve_(factors, np.asarray(pivots, np.int32), right, lower=1)[0]


linalg_vander.__name__, linalg_diagonal.__name__ = "vander", "diagonal"
publish(globals())
