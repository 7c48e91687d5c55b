# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Compositions of products: beta * input + alpha * (a @ b), inner, tensordot, chains, kron, cross, vecdot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import cython
from cython.cimports.weft.engine.frontend.tensor import Tensor

from weft._build.compiled import require
from weft._typing import Scalar
from weft.engine.api.call_cache import composed_of_primitives
from weft.engine.dispatch.type_names import TYPE_NAMES
from weft.engine.frontend.recorder import cast
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, DTypeError, ShapeError
from weft.functional.linalg.products import bmm, inner_product, mm, mv, outer, product
from weft.functional.shape.concat import stack
from weft.functional.shape.slicing import unbind
from weft.functional.support.variants import make_in_place, write_out
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import permute, reduce, reshape
from weft.tensor.arguments import (
    describe,
    integer_of,
    need_tensor,
    no_fraction,
    sizes,
    widen,
    wrap_dim,
    wrap_dims,
)

require(__name__, cython.compiled)


def _added(name: str, input: Tensor, result: Tensor, beta: Any, alpha: Any) -> Any:
    if input._dtype is not result._dtype:
        raise DTypeError(
            f"self and mat2 must have the same dtype, but got {TYPE_NAMES[input._dtype.name]} and "
            f"{TYPE_NAMES[result._dtype.name]}",
            expected="one dtype",
            got=describe("input", input),
            fix="convert it with .to(mat1.dtype)",
            operation=name,
        )
    if input._dtype.category == 1:
        beta, alpha = int(beta), int(alpha)
    if alpha != 1:
        result = result * alpha
    if beta == 0:
        return result
    return (input if beta == 1 else input * beta) + result


def _scaled_sum(
    name: str,
    multiply: Callable[..., Tensor],
    input: Tensor,
    a: Tensor,
    b: Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Any:
    """beta * input + alpha * multiply(a, b); halves are rounded once, at the end."""
    half = isinstance(a, Tensor) and a._dtype.itemsize == 2 and a._dtype.category == 2
    if not half or input._dtype is not a._dtype or b._dtype is not a._dtype:
        return _added(name, input, multiply(a, b), beta, alpha)
    wide = _added(name, widen(input), multiply(widen(a), widen(b)), beta, alpha)
    return cast(wide, input._dtype)


def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Scalar = 1,
    alpha: Scalar = 1,
    out: Tensor | None = None,
) -> Any:
    """beta * input + alpha * (mat1 @ mat2)."""
    result = _scaled_sum("addmm", mm, input, mat1, mat2, beta, alpha)
    return result if out is None else write_out(out, result)


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Any:
    """beta * input + alpha * (mat @ vec)."""
    return _scaled_sum("addmv", mv, input, mat, vec, beta, alpha)


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Any:
    """beta * input + alpha * outer(vec1, vec2)."""
    types = [need_tensor("addr", x)._dtype for x in (input, vec1, vec2)]
    dtype = dtypes.promote(dtypes.promote(types[0], types[1]), types[2])
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, float) and dtype.category < 2:
            raise no_fraction(name, factor, f"tensors of {dtype.name}")
    input, vec1, vec2 = [cast(x, dtype) for x in (input, vec1, vec2)]
    return _scaled_sum("addr", outer, input, vec1, vec2, beta, alpha)


def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Scalar = 1,
    alpha: Scalar = 1,
    out: Tensor | None = None,
) -> Any:
    """beta * input + alpha * (batch1 @ batch2)."""
    result = _scaled_sum("baddbmm", bmm, input, batch1, batch2, beta, alpha)
    return result if out is None else write_out(out, result)


def _summed_beside_ones(a: Tensor, over_a: Any, b: Tensor, over_b: Any) -> tuple[Any, Any]:
    """Sum the dimensions that are contracted with one of size 1."""
    pairs = list(zip(over_a, over_b, strict=False))
    wide_a = tuple(sorted(i for i, j in pairs if b._shape[j] == 1 != a._shape[i]))
    wide_b = tuple(sorted(j for i, j in pairs if a._shape[i] == 1 != b._shape[j]))
    return (
        reduce("sum", a, wide_a, True) if wide_a else a,
        reduce("sum", b, wide_b, True) if wide_b else b,
    )


def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Any:
    """Sums of products over the last dimension of both."""
    need_tensor("inner", input, "input", 1)
    need_tensor("inner", other, "other", 2)
    if not input._shape or not other._shape:
        return input * other
    if input._shape[-1] != other._shape[-1]:
        raise ShapeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input._shape)} and {list(other._shape)}",
            expected="equal last sizes",
            got=f"{describe('input', input)}, {describe('other', other)}",
            fix="transpose one of them",
        )
    return tensordot(input, other, ([-1], [-1]))


def _uncontracted(a: Tensor, over_a: Sequence[int], b: Tensor, over_b: Sequence[int]) -> str:
    """PyTorch's words for the first pair of dimensions that differ in size."""
    if len(over_a) != len(over_b):
        return "both dimension lists should have same length"
    i, j = next((i, j) for i, j in zip(over_a, over_b, strict=True) if a._shape[i] != b._shape[j])
    return (
        f"contracted dimensions need to match, but first has size {a._shape[i]} in dim {i} and second has size "
        f"{b._shape[j]} in dim {j}"
    )


def tensordot(
    a: Tensor,
    b: Tensor,
    dims: int | Sequence[int] | Sequence[Sequence[int]] = 2,
    out: Tensor | None = None,
) -> Any:
    """Sums of products over the last dimensions of a and the first of b, or over named pairs of dimensions."""
    need_tensor("tensordot", a, "a", 1)
    need_tensor("tensordot", b, "b", 2)
    rank_a, rank_b = len(a._shape), len(b._shape)
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    else:
        count = integer_of(dims)
        dims = dims if count is None else count
    if not isinstance(dims, int) and (not isinstance(dims, (tuple, list)) or len(dims) != 2):
        raise ArgumentError(
            "tensordot expects both dims_a and dims_b as lists of dims",
            expected="a number of dimensions, or two lists of dimensions",
            got=repr(dims),
            fix="pass such as dims=([1], [0])",
        )
    if isinstance(dims, int) and not 0 <= dims <= min(rank_a, rank_b):
        raise ArgumentError(
            f"tensordot expects dims >= 0, but got dims={dims}"
            if dims < 0
            else f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}",
            expected=f"0 <= dims <= {min(rank_a, rank_b)}",
            got=str(dims),
            fix="name the dimensions as two lists",
        )
    if isinstance(dims, int):
        over_a, over_b = tuple(range(rank_a - dims, rank_a)), tuple(range(dims))
    else:
        over_a = wrap_dims(sizes((dims[0],)) if not isinstance(dims[0], int) else dims[0], rank_a)
        over_b = wrap_dims(sizes((dims[1],)) if not isinstance(dims[1], int) else dims[1], rank_b)
    a, b = _summed_beside_ones(a, over_a, b, over_b)
    if tuple(a._shape[i] for i in over_a) != tuple(b._shape[i] for i in over_b):
        raise ShapeError(
            _uncontracted(a, over_a, b, over_b),
            expected="equal sizes",
            got=f"{describe('a', a)}, {describe('b', b)}",
            fix="name pairs of dimensions of equal size",
        )
    free_a = tuple(i for i in range(rank_a) if i not in over_a)
    free_b = tuple(i for i in range(rank_b) if i not in over_b)
    inner_size = prod(tuple(a._shape[i] for i in over_a))
    rows, columns = tuple(a._shape[i] for i in free_a), tuple(b._shape[i] for i in free_b)
    left, right = permute(a, (*free_a, *over_a)), permute(b, (*over_b, *free_b))
    if rows == columns == ():
        result = inner_product(
            reshape(left, (inner_size,)), reshape(right, (inner_size,)), "tensordot"
        )
    else:
        left, right = (
            reshape(left, (prod(rows), inner_size)),
            reshape(right, (inner_size, prod(columns))),
        )
        result = reshape(product(left, right, "tensordot"), (*rows, *columns))
    return result if out is None else write_out(out, result)


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Any:
    """The product of matrices, from the left."""
    if not matrices:
        raise ArgumentError(
            "chain_matmul(): Expected one or more matrices",
            expected="at least one matrix",
            got="none",
            fix="check the list first",
        )
    result = need_tensor("chain_matmul", matrices[0], "matrices")
    for matrix in matrices[1:]:
        result = mm(result, matrix)
    result = result.clone() if len(matrices) == 1 else result
    return result if out is None else write_out(out, result)


def kron(input: Tensor, other: Tensor) -> Any:
    """The Kronecker product."""
    need_tensor("kron", input, "input", 1)
    need_tensor("kron", other, "other", 2)
    rank = max(len(input._shape), len(other._shape))
    a = (1,) * (rank - len(input._shape)) + input._shape
    b = (1,) * (rank - len(other._shape)) + other._shape
    left, right = [], []
    for size_a, size_b in zip(a, b, strict=True):
        left += [size_a, 1]
        right += [1, size_b]
    product_all = reshape(input, tuple(left)) * reshape(other, tuple(right))
    return reshape(product_all, tuple([x * y for x, y in zip(a, b, strict=True)]))


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Any:
    """The cross product of vectors of three elements along a dimension."""
    need_tensor("cross", input, "input", 1)
    need_tensor("cross", other, "other", 2)
    axis = (
        wrap_dim(dim, len(input._shape))
        if dim is not None
        else next((i for i, size in enumerate(input._shape) if size == 3), -1)
    )
    if len(input._shape) != len(other._shape):
        raise ShapeError(
            "linalg.cross: inputs must have the same number of dimensions.",
            expected="two tensors of one rank",
            got=f"{describe('input', input)}, {describe('other', other)}",
            fix="unsqueeze the smaller one",
        )
    both = 0 <= axis < len(input._shape) and axis < len(other._shape)
    if not both or input._shape[axis] != 3 or other._shape[axis] != 3:
        raise ArgumentError(
            f"linalg.cross: inputs dimension {-1 if dim is None else dim} must have length 3."
            + (f" Got {input._shape[axis]} and {other._shape[axis]}" if both else ""),
            expected="a dimension of size 3",
            got=f"{describe('input', input)}, {describe('other', other)}",
            fix="pass dim=",
        )
    return _crossed(input, other, axis)


@composed_of_primitives
def _crossed(input: Tensor, other: Tensor, axis: int) -> Any:
    """The cross product, element by element of a vector."""
    (a, b, c), (x, y, z) = unbind(input, axis), unbind(other, axis)
    return stack((b * z - c * y, c * x - a * z, a * y - b * x), axis)


def vecdot(x: Tensor, y: object, *, dim: int = -1, out: Tensor | None = None) -> Any:
    """sum(conj(x) * y) over a dimension; the others broadcast."""
    need_tensor("linalg.vecdot", x, "x", 1)
    need_tensor("linalg.vecdot", y, "y", 2)
    products = (call("conj", x) if x._dtype.is_complex else x) * y
    axis = wrap_dims((dim,), len(products._shape))
    result = reduce("sum", products, axis)
    return result if out is None else write_out(out, result)


FUNCTIONS: dict[str, Any] = {
    function.__name__: function
    for function in (addmm, addmv, addr, baddbmm, inner, tensordot, chain_matmul, kron, cross)
}
METHODS: dict[str, Any] = {
    name: FUNCTIONS[name]
    for name in ("addmm", "addmv", "addr", "baddbmm", "inner", "kron", "cross")
}
METHODS |= {
    f"{name}_": make_in_place(FUNCTIONS[name], name)
    for name in ("addmm", "addmv", "addr", "baddbmm")
}
LINALG: dict[str, Any] = {"cross": cross, "vecdot": vecdot}
