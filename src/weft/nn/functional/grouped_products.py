"""Grouped matrix products: matrices of different heights, one behind the other: `grouped_mm`.

It takes two operands, of which one or both are matrices concatenated into one, and the end of each. It returns their
products, concatenated in the same way. The ends are read at the call.
"""

from __future__ import annotations

from typing import Any

from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError
from weft.functional.linalg.products import bmm
from weft.functional.shape.concat import cat, stack
from weft.ops.primitives import full
from weft.tensor.arguments import describe, need_tensor


def grouped_mm(
    mat_a: object,
    mat_b: object,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: DType | None = None,
) -> Any:
    """The products of groups: `offs` (int32) says where each ends, along the dimension that the groups share.

    Shapes: (rows, k), (groups, k, n) -> (rows, n), groups of rows, those behind the last are 0; (groups, m, k), (k,
    columns) -> (m, columns), groups of columns; (m, k), (k, n) -> (groups, m, n), groups of k; (groups, m, k),
    (groups, k, n) -> (groups, m, n), without `offs`. Errors: RuntimeError."""
    a, b = (
        need_tensor("grouped_mm", mat_a, "mat_a", 1),
        need_tensor("grouped_mm", mat_b, "mat_b", 2),
    )
    ranks = len(a._shape), len(b._shape)
    _check(a, b, ranks, offs, bias, out_dtype)
    if ranks == (3, 3):
        return bmm(a, b)
    ends: list[int] = need_tensor("grouped_mm", offs, "offs", 3).tolist()
    groups = list(zip([0, *ends], ends, strict=False))
    if ranks == (2, 3):
        parts = [a[begin:end] @ b[group] for group, (begin, end) in enumerate(groups)]
        return _joined(parts, 0, (a._shape[0] - ends[-1], b._shape[-1]), a._dtype)
    if ranks == (3, 2):
        parts = [a[group] @ b[:, begin:end] for group, (begin, end) in enumerate(groups)]
        return _joined(parts, 1, (a._shape[1], b._shape[1] - ends[-1]), a._dtype)
    return stack([a[:, begin:end] @ b[begin:end] for begin, end in groups])


def _joined(parts: list[Tensor], dim: int, rest: tuple[int, int], dtype: DType) -> Any:
    """Products concatenated, and zeros for rows or columns in no group."""
    return cat([*parts, full(rest, 0, dtype)] if rest[dim] else parts, dim)


def _check(
    a: Tensor,
    b: Tensor,
    ranks: tuple[int, int],
    offs: Tensor | None,
    bias: object,
    out_dtype: object,
) -> None:
    text = None
    if not {*ranks} <= {2, 3}:
        text = f"{'mat_a' if ranks[0] not in (2, 3) else 'mat_b'} has to be 2 or 3d"
    elif a._shape[-1] != b._shape[-2]:
        text = "contraction dimension of mat_a and mat_b must match"
    elif (offs is None) != (ranks == (3, 3)):
        text = (
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
        )
    elif offs is not None and offs._dtype is not dtypes.int32:
        text = "Offsets have to be int32"
    elif bias is not None:
        text = "Bias not supported yet"
    elif out_dtype is not None and out_dtype is not a._dtype:
        text = "Grouped gemm output dtype must match `mat_a` dtype"
    if text is not None:
        raise ArgumentError(
            text,
            expected="(rows, k), (groups, k, n) and where the groups of rows end, in int32",
            got=f"{describe('mat_a', a)}, {describe('mat_b', b)}",
            fix="pass offs=weft.tensor(lengths).cumsum(0, dtype=weft.int32), and add a bias afterwards",
        )


__all__ = ["grouped_mm"]
