# ruff: noqa: A001, A002 - PyTorch's names
"""Least squares: the shortest X that minimises |A X - B|, with residuals, ranks and singular values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.api.api_function import publish
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, ArgumentTypeError, ShapeError, class_name
from weft.functional.linalg.decompositions import matrix_rank, pinv, svdvals
from weft.functional.linalg.factored import each, need_matrices, need_same
from weft.functional.linalg.lapack_primitives import composed, valued
from weft.functional.shape.concat import cat
from weft.functional.support import host, lapack_batches
from weft.functional.support.memory_formats import columns_first
from weft.functional.support.return_types import result_type
from weft.functional.support.variants import given
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full
from weft.tensor.arguments import describe, need_tensor

if TYPE_CHECKING:
    from weft._typing import Array


Lstsq = result_type("linalg_lstsq")


def lstsq(
    A: Tensor,
    B: Tensor,
    rcond: float | None = None,
    *,
    driver: str | None = None,
    out: Tensor | None = None,
) -> Any:
    """(solution, residuals, rank, singular values) of the X that minimises |A X - B|."""
    need_matrices("torch.linalg.lstsq", A, "input", False)
    need_tensor("linalg.lstsq", B, "B", 2)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise ArgumentError(
            "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)",
            expected="gels, gelsy, gelsd or gelss",
            got=repr(driver),
            fix="leave it out",
        )
    need_same(
        "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype {0} and other's "
        "dtype {1}",
        A,
        B,
    )
    vector = len(B._shape) == len(A._shape) - 1
    right = B.unsqueeze(-1) if vector else B
    if len(right._shape) < 2 or right._shape[-2] != A._shape[-2]:
        raise ShapeError(
            "torch.linalg.lstsq: input.size(-2) should match other.size(-2)",
            expected=f"{A._shape[-2]} rows in B",
            got=f"{describe('A', A)}, {describe('B', B)}",
            fix="transpose B",
        )
    solution, rank = _least_squares(A, right, rcond)
    solution = columns_first(solution)
    if (
        A._shape[-2] > A._shape[-1]
    ):  # the upper rows of a memory of the size of B, as LAPACK leaves it
        room = (*solution._shape[:-2], A._shape[-2] - A._shape[-1], solution._shape[-1])
        tall = columns_first(cat([solution, full(room, 0, solution._dtype)], -2))
        solution = tall[..., : A._shape[-1], :]
    rank = matrix_rank(A, rtol=rcond) if rank is None else rank
    parts = _of_solution(A, right, solution, rank.reshape(A._shape[:-2]), driver or "gelsy")
    found = Lstsq((solution.squeeze(-1) if vector else solution, *parts))
    return given(out, found, converts=True)


def _least_squares(A: Tensor, B: Tensor, rcond: float | None) -> tuple[Any, Any]:
    """X, the shortest of those that minimise |A X - B|, and the ranks where they come with it."""
    relative = None if rcond is None else _number_of(rcond)
    if relative is not None and relative.dtype.kind not in "fiub":
        raise ArgumentTypeError(
            f"linalg_lstsq(): argument 'rcond' must be float, not {class_name(rcond)}",
            expected="a real number",
            got=f"{rcond!r:.60}",
            fix="leave it out, or pass a float",
        )
    if (
        A._shape[:-2] != B._shape[:-2]
        or 0 in A._shape + B._shape
        or (relative is not None and relative.ndim)
    ):
        return pinv(A, rcond) @ B, None
    limit = np.finfo(A._dtype.to_real().numpy).eps * max(A._shape[-2:])
    limit = limit if relative is None else float(relative)
    ranks: list[Any] = []

    def compute(a: np.ndarray, b: Array) -> Any:
        found, counts = each(lambda one, right: _shortest(one, right, limit), a, b)
        ranks.append(host.from_numpy(np.asarray(counts, np.int64)))
        return found

    solution = valued("LinalgLstsq", compute, composed(lambda a, b: pinv(a, rcond) @ b))(A, B)
    return solution, ranks[-1] if ranks else None


def _shortest(a: np.ndarray, b: np.ndarray, limit: float) -> tuple[Any, int]:
    """The least squares of one system and its rank, by a complete orthogonal factorization (LAPACK's gelsy)."""
    rows, columns = a.shape
    right = np.zeros((max(rows, columns), b.shape[1]), b.dtype)
    right[:rows] = b
    pivots = np.zeros((columns, 1), np.int32)
    work = (
        2 * min(rows, columns)
        + (lapack_batches.BLOCK + 4) * (columns + 1)
        + lapack_batches.BLOCK * b.shape[1]
    )
    found = host.routine("gelsy", a.dtype)(a, right, pivots, limit, work)
    return found[1][:columns], found[3]


def _of_solution(
    A: Tensor, B: Tensor, solution: Tensor, rank: Tensor, driver: str
) -> tuple[Any, Any, Any]:
    """Residuals (where A is high and has full rank), rank and singular values, as far as the driver gives them."""
    rows, columns = A._shape[-2:]
    real = A._dtype.to_real()
    residuals = call("abs", solution.reshape(-1)[:0])  # differentiable, as where there are some
    if (
        rows > columns
        and (driver == "gels" or bool((rank == columns).all().item()))
        and driver != "gelsy"
    ):
        gap = call("abs", A @ solution - B)
        residuals = (gap * gap).sum(-2)
    values = full((0,), 0, real)
    if driver in ("gelsd", "gelss"):
        values = svdvals(A.detach())
    if driver == "gels":
        rank = full((0,), 0, dtypes.int64)
    return residuals, rank, values


def _number_of(tolerance: object) -> Any:
    return host.to_numpy(tolerance) if isinstance(tolerance, Tensor) else np.asarray(tolerance)


publish(globals())
