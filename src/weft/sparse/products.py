# ruff: noqa: A002 - PyTorch's names
"""Products of sparse matrices: with dense ones, with vectors, with each other; at some places only.

A product with a small dense matrix is taken entry by entry: its rows are gathered, weighed and added by row. One with a
large matrix is a product of bags (`bag_products`): no row is gathered. Both have derivatives, so that gradients reach
the values of sparse factors and all of dense ones, and both give the same bits, unless a row of the sparse factor is
far longer than the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft import Tensor
from weft._typing import Scalar
from weft.engine.dispatch.type_names import TYPE_NAMES
from weft.errors import DTypeError, NotDefinedError, ShapeError
from weft.functional.indexing import bag_products
from weft.ops.primitives import reshape, take, take_add
from weft.sparse import structure
from weft.sparse.compressed import as_rows, need_csr
from weft.sparse.making import added, coalesced
from weft.sparse.tensor import SparseTensor, like, make
from weft.tensor.arguments import widen

_REDUCTIONS = {"max": "amax", "min": "amin"}
_SUMMED = (weft.float32, weft.float64)  # what `resample` takes


def _check(name: str, one: Tensor, other: Any, *ranks: tuple[int, int]) -> None:
    """Errors: ShapeError where the ranks or the inner sizes do not fit, NotDefinedError for dense dimensions."""
    inner = -2 if len(other.shape) > 1 else -1
    if (len(one.shape), len(other.shape)) not in ranks or one.shape[-1] != other.shape[inner]:
        raise ShapeError(
            f"{name}: shapes cannot be multiplied: {list(one.shape)} and {list(other.shape)}",
            expected=f"operands of {' or '.join(map(str, ranks))} dimensions with equal inner sizes",
            got=f"{list(one.shape)} and {list(other.shape)}",
            fix="transpose one of the factors",
        )
    for factor in (one, other):
        if isinstance(factor, SparseTensor) and factor.dense_dim():
            raise NotDefinedError(
                f"{name}: a factor with dense dimensions",
                expected="a factor all of whose dimensions are sparse",
                got=f"shape {list(factor.shape)}, {factor.indexed_dim} of them sparse",
                fix="make it with a row of indices for each dimension",
            )


def _times_dense(one: SparseTensor, other: Tensor) -> Tensor:
    """(m, k) @ (k, n) -> (m, n)."""
    dtype = weft.promote_types(one.dtype, other.dtype)
    if dtype in _SUMMED and one.entry_count * other.shape[1] > bag_products.GATHERED_ELEMENTS:
        return bag_products.of_bags(other.to(dtype), _bags(one), one.entries.to(dtype), False)  # type: ignore[no-any-return]
    rows, columns = one.places[0], one.places[1]
    terms = widen(one.entries.to(dtype)).unsqueeze(1) * widen(take(other.to(dtype), 0, columns))
    start = terms.new_zeros((one.shape[0], other.shape[1]))
    return take_add(start, 0, rows, terms).to(dtype)  # type: ignore[no-any-return]


def _bags(matrix: SparseTensor) -> bag_products.Bags:
    """The entries of a matrix by row, computed once for its indices."""
    if matrix.bags is None:
        rows, columns = structure.places_of(matrix.places)
        order = np.argsort(rows, kind="stable")
        starts = structure.row_starts(rows[order], matrix.shape[0])
        matrix.bags = bag_products.bags_of_rows(columns, starts, order)
    return matrix.bags


def _times_sparse(one: SparseTensor, other: SparseTensor) -> SparseTensor:
    """(m, k) @ (k, n) -> (m, n), sparse."""
    layout, one, other = one.layout, coalesced(one), coalesced(other)
    (rows, inner), (second, columns) = map(structure.places_of, (one.places, other.places))
    left, right = structure.products(inner, structure.row_starts(second, other.shape[0]))
    terms = take(one.entries, 0, structure.as_index(left, max(one.entry_count, 1))) * take(
        other.entries, 0, structure.as_index(right, max(other.entry_count, 1))
    )
    shape = one.shape[0], other.shape[1]
    position, groups = np.unique(rows[left] * shape[1] + columns[right], return_inverse=True)
    places = structure.as_indices(structure.unflat(position, shape), len(position))
    made = make(places, added(terms, groups.reshape(-1), len(position)), shape, True)
    return as_rows(made) if layout is weft.sparse_csr else made


def multiply(one: SparseTensor, other: Any) -> Any:
    """The product of two matrices of which one is sparse. Shapes: (m, k), (k, n) -> (m, n)."""
    if not isinstance(one, SparseTensor):
        return multiply(_turned(other), one.T).T
    if isinstance(other, SparseTensor):
        return _times_sparse(one, other)
    return _times_dense(one, other)


def _turned(matrix: SparseTensor) -> SparseTensor:
    """The transpose, in any order of its entries."""
    return make(matrix.places.flip(0), matrix.entries, (matrix.shape[1], matrix.shape[0]))


def mm(
    function: Callable[..., object] | None,
    input: SparseTensor,
    mat2: object,
    reduce: str | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """A product of matrices."""
    _check("mm", input, mat2, (2, 2))
    return multiply(input, mat2)


def matmul(
    function: Callable[..., Tensor], input: Any, other: Any, *, out: Tensor | None = None
) -> Any:
    """A product of matrices, or of a matrix and a vector."""
    _check("matmul", input, other, (2, 2), (2, 1), (1, 2))
    if len(other.shape) == 1:
        return multiply(input, _column(other)).squeeze(1)
    if len(input.shape) == 1:
        return multiply(_turned(other), _column(input)).squeeze(1)
    return multiply(input, other)


def _column(vector: Tensor) -> Tensor:
    dense = vector.to_dense()
    return reshape(dense, (dense.shape[0], 1))  # type: ignore[no-any-return]


def mv(
    function: Callable[..., object], input: SparseTensor, vec: Tensor, *, out: Tensor | None = None
) -> Any:
    """A matrix times a vector."""
    _check("mv", input, vec, (2, 1))
    return multiply(input, _column(vec)).squeeze(1)


def addmm(
    function: Callable[..., object] | None,
    input: Tensor,
    mat1: SparseTensor,
    mat2: Tensor,
    *,
    beta: Scalar = 1,
    alpha: float | complex = 1,
    out: Tensor | None = None,
) -> Any:
    """beta * input + alpha * (mat1 @ mat2)."""
    _check("addmm", mat1, mat2, (2, 2))
    product = multiply(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    scaled = input if beta == 1 else input * beta
    return scaled + product


def linear(function: object, input: Any, weight: SparseTensor, bias: Tensor | None = None) -> Any:
    """input @ weight.T + bias, with a sparse factor. Shapes: (*, in), (out, in) -> (*, out)."""
    rows = input if len(input.shape) == 2 else input.reshape(-1, input.shape[-1])
    _check("linear", rows, weight.t(), (2, 2))
    product = multiply(rows, weight.t())
    if len(input.shape) != 2:
        product = product.reshape(*input.shape[:-1], weight.shape[0])
    return product if bias is None else product + bias


def bmm(
    function: Callable[..., object], input: SparseTensor, mat2: Tensor, *, out: Tensor | None = None
) -> Any:
    """Products of a batch of sparse matrices with dense ones. Shapes: (b, m, k), (b, k, n) -> (b, m, n)."""
    if not isinstance(input, SparseTensor) or isinstance(mat2, SparseTensor):
        raise NotDefinedError(
            "bmm: only sparse @ dense",
            expected="a sparse and a dense batch of matrices",
            got=f"{type(input).__name__} and {type(mat2).__name__}",
            fix="use .to_dense()",
        )
    _check("bmm", input, mat2, (3, 3))
    batch, rows, inner = input.shape
    number, row, column = input.places
    wide = make(
        weft.stack([number * rows + row, number * inner + column]),
        input.entries,
        (batch * rows, batch * inner),
    )
    product = _times_dense(wide, mat2.reshape(batch * inner, mat2.shape[2]))
    return product.reshape(batch, rows, mat2.shape[2])


def mm_reduced(matrix: SparseTensor, dense: Tensor, reduce: str) -> Tensor:
    """The sum, mean, largest or smallest of the terms of each element of a product; 0 if it has none."""
    need_csr("sparse.mm with reduce", matrix)
    _check("sparse.mm", matrix, dense, (2, 2))
    if reduce == "sum":
        return _times_dense(matrix, dense)
    rows = matrix.places[0]
    terms = matrix.entries.unsqueeze(1) * take(dense, 0, matrix.places[1])
    start = terms.new_zeros((matrix.shape[0], dense.shape[1]))
    return weft.index_reduce(  # type: ignore[no-any-return]
        start, 0, rows, terms, _REDUCTIONS.get(reduce, reduce), include_self=False
    )


def _need_sampled(input: SparseTensor, mat1: Tensor, mat2: Tensor) -> None:
    """Errors: DTypeError, ShapeError where the operands of `sampled` do not fit together, in PyTorch's order."""
    for label, other in (("mat2", mat2), ("self", input)):
        if mat1.dtype is not other.dtype:
            types = TYPE_NAMES[mat1.dtype.name], TYPE_NAMES[other.dtype.name]
            raise DTypeError(
                f"sampled_addmm: Expected mat1 and {label} to have the same dtype, but got {types[0]} and {types[1]}",
                expected="one dtype",
                got=f"{mat1.dtype} and {other.dtype}",
                fix="convert one with .to(other.dtype)",
            )
    sizes = tuple(input.shape), tuple(mat1.shape), tuple(mat2.shape)
    words = ""
    if sizes[1][-1] != sizes[2][-2]:
        shown = [f"{size[-2]}x{size[-1]}" for size in sizes[1:]]
        words = f"mat1 and mat2 shapes cannot be multiplied ({shown[0]} and {shown[1]})"
    elif sizes[0][-2] != sizes[1][-2]:
        words = "self.shape[-2] must match mat1.shape[-2]"
    elif sizes[0][-1] != sizes[2][-1]:
        words = "self.shape[-1] must match mat2.shape[-1]"
    if words:
        raise ShapeError(
            f"sampled_addmm: {words}",
            expected="(m, n), (m, k) and (k, n)",
            got=", ".join(str(list(size)) for size in sizes),
            fix="reshape or transpose an operand",
        )


def sampled(
    input: SparseTensor, mat1: Tensor, mat2: Tensor, beta: object = 1, alpha: object = 1
) -> SparseTensor:
    """beta * input + alpha * (mat1 @ mat2), at the entries of `input` only.

    Shapes: (m, n), (m, k), (k, n) -> (m, n).
    """
    need_csr("sampled_addmm", input)
    _need_sampled(input, mat1, mat2)
    rows, columns = input.places[0], input.places[1]
    products = (take(mat1, 0, rows) * take(mat2, 1, columns).T).sum(1)
    entries = products * alpha if beta == 0 else input.entries * beta + products * alpha
    return like(input, entries)


RULES: dict[str, Any] = {
    "mm": mm, "matmul": matmul, "mv": mv, "addmm": addmm, "linear": linear, "bmm": bmm, "smm": mm,
}  # fmt: skip
