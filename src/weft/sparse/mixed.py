# ruff: noqa: A002 - PyTorch's names
"""Products of a sparse and a dense matrix that stay sparse (smm, hspmm, sspaddmm)."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft._typing import Scalar
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError
from weft.functional.shape.concat import cat
from weft.ops.primitives import take
from weft.sparse import products
from weft.sparse.structure import as_index, as_indices, places_of
from weft.sparse.tensor import SparseTensor, make


def smm(input: SparseTensor, mat: Tensor) -> Any:
    """The product of a sparse and a dense matrix, as a sparse one: it has all columns of the rows that `input` has
    entries in. Shapes: (m, k), (k, n) -> (m, n)."""
    _need_sparse("smm", "input", input)
    return _row_by_row(products.mm(None, input, mat), input)


def _row_by_row(product: Tensor, input: SparseTensor) -> Any:
    """The rows of a dense product that those of `input` with entries give, entry by entry."""
    rows, columns = _rows(input), product.shape[1]
    places = np.stack([np.repeat(rows, columns), np.tile(np.arange(columns), len(rows))])
    entries = take(product, 0, as_index(rows, product.shape[0])).reshape(-1)
    return make(as_indices(places, places.shape[1]), entries, product.shape)


def _rows(input: SparseTensor) -> Any:
    """The rows in which a sparse matrix has entries, in order."""
    return np.unique(places_of(input.places)[0])


def hspmm(mat1: Any, mat2: Tensor) -> Any:
    """The product of a sparse and a dense matrix, as a sparse one of dense rows. Shapes: (m, k), (k, n) -> (m, n)."""
    _need_sparse("hspmm", "mat1", mat1)
    product, rows = products.mm(None, mat1, mat2), _rows(mat1)
    entries = take(product, 0, as_index(rows, product.shape[0]))
    return make(as_indices([rows], len(rows)), entries, product.shape)


def sspaddmm(
    input: SparseTensor, mat1: SparseTensor, mat2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Any:
    """beta * input + alpha * (mat1 @ mat2), sparse, with a sparse input and mat1.

    Shapes: (m, n), (m, k), (k, n) -> (m, n). Errors: RuntimeError for a dense input or mat1.
    """
    _need_sparse("sspaddmm", "input", input)
    product = smm(mat1, mat2)
    places = cat([input.places, product.places], 1)
    entries = cat([input.entries * beta, product.entries * alpha])
    return make(places, entries, product.shape)


hsmm, saddmm = hspmm, sspaddmm  # under older names


def _need_sparse(name: str, argument: str, value: Tensor) -> None:
    if not isinstance(value, SparseTensor):
        raise ArgumentError(
            f"{name}: Expected '{argument}' to be a sparse tensor",
            expected="a sparse tensor",
            got=type(value).__name__,
            fix="convert it with .to_sparse()",
        )
