"""Products of a sparse and a dense matrix that stay sparse: smm, hspmm, sspaddmm."""

from __future__ import annotations

from typing import Any

from weft.errors import ArgumentError
from weft.sparse import products
from weft.sparse.making import to_sparse
from weft.sparse.tensor import SparseTensor


def smm(input: Any, mat: Any) -> Any:
    """The product of a sparse and a dense matrix, as a sparse one. Shapes: (m, k), (k, n) -> (m, n)."""
    _need_sparse("smm", "input", input)
    return to_sparse(products.mm(None, input, mat))


def hspmm(mat1: Any, mat2: Any) -> Any:
    """The product of a sparse and a dense matrix, as a sparse one of dense rows. Shapes: (m, k), (k, n) -> (m, n)."""
    _need_sparse("hspmm", "mat1", mat1)
    return to_sparse(products.mm(None, mat1, mat2), 1)


def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2), sparse, with a sparse input and mat1.

    Shapes: (m, n), (m, k), (k, n) -> (m, n). Errors: RuntimeError for a dense input or mat1.
    """
    _need_sparse("sspaddmm", "input", input)
    return input * beta + smm(mat1, mat2) * alpha


def _need_sparse(name: str, argument: str, value: Any) -> None:
    if not isinstance(value, SparseTensor):
        raise ArgumentError(
            f"{name}: Expected '{argument}' to be a sparse tensor",
            expected="a sparse tensor",
            got=type(value).__name__,
            fix="convert it with .to_sparse()",
        )
