# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Norms of vectors and matrices: `norm`, `linalg.norm`, `vector_norm`, `matrix_norm`; distances, and the trace.

The 2-norm is a composite with a gradient of its own: 0 at 0, where the composed one would be nan.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cython
from cython.cimports.weft.engine.frontend.recorder import cast, record_elementwise
from cython.cimports.weft.engine.frontend.resolve import needs_grad
from cython.cimports.weft.engine.frontend.tensor import Tensor

from weft._build.compiled import require
from weft._build.lazy import later
from weft.engine.frontend.recorder import record_gradient
from weft.engine.ir.dtype import promote
from weft.engine.ir.strides import broadcast_shapes
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DimensionError,
    DTypeError,
    ShapeError,
    UnsupportedDTypeError,
)
from weft.functional.reductions.sums_and_extrema import (
    count_of,
    extreme_of_all,
    reduce_over,
    reduced_shape,
    sum,
)
from weft.functional.shape.slicing import diagonal
from weft.functional.shape.views import movedim
from weft.functional.support.variants import write_out
from weft.ops import OPS
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import expand, reshape, where
from weft.tensor.arguments import (
    TYPE_NAMES,
    Dims,
    Shape,
    as_dtype,
    describe,
    need_rank,
    need_tensor,
    no_kernel,
    reduced_axes,
    untracked,
    widen,
)

if TYPE_CHECKING:
    from weft._typing import DTypeLike, TensorArgument
    from weft.engine.ir.dtype import DType


require(__name__, cython.compiled)

singular_values = later("weft.functional.linalg.singular_values")
factored = later("weft.functional.linalg.factored")
FEW_POINTS = 25  # points up to which distances are no matrix products, as in PyTorch
_SUM, _NORM, _SQUARE, _SQRT = OPS["sum"], OPS["norm"], OPS["square"], OPS["sqrt"]
_POWER_NORM = OPS["power_norm"]


@cython.cfunc
def _root_of_squares(x: Tensor, axes: Shape, keepdim: bool) -> object:
    if x._dtype.category == 3:
        x = call("abs", x)
    total = reduce_over(_SUM, record_elementwise(_SQUARE, (x,), None), axes, keepdim, x._dtype)
    return record_elementwise(_SQRT, (total,), None)


def _two_norm(x: Tensor, axes: Shape) -> Any:
    """sqrt(sum |x|^2), dimensions kept, with the composite gradient."""
    with untracked():
        result = _root_of_squares(x, axes, True)
    return record_gradient(_NORM, (x,), (axes,), result)


def _power_norm(x: Tensor, p: float, axes: Shape) -> Any:
    """(sum |x|^p)^(1/p), dimensions kept, with the composite gradient."""
    with untracked():
        size = call("abs", x)
        total = reduce_over(_SUM, size**p, axes, True, size._dtype)
        result = total ** (1.0 / p)
    return record_gradient(_POWER_NORM, (x,), (p, axes), result)


def _norm_kept(x: Tensor, p: float, axes: Shape) -> Any:
    if p == 2 and axes:
        return _two_norm(x, axes)
    if p == 1:
        size = call("abs", x)
        return reduce_over(_SUM, size, axes, True, size._dtype)
    if p in (math.inf, -math.inf):
        size = call("abs", x)
        return extreme_of_all("max" if p > 0 else "min", size, axes, True)
    if p == 0:
        size = call("abs", x)  # so that the gradient is 0, not missing
        count = where(size != 0, 1, call("sign", size))
        return reduce_over(_SUM, count, axes, True, count._dtype)
    if not axes:
        return call("abs", x)
    return _power_norm(x, p, axes)


def vector_norm(
    x: TensorArgument,
    ord: Any = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
    out: TensorArgument | None = None,
) -> Any:
    """The p-norm over dimensions (all unless given). Errors: DTypeError on integers."""
    result = _over(x, ord, dim, keepdim, dtype)
    return result if out is None else write_out(out, result)


def _converted(function: str, x: Tensor, dtype: DTypeLike | None) -> Any:
    """x in the type that its norm is asked in. Errors: DTypeError on integers, and on a type that holds fewer numbers
    or is of another kind."""
    wanted = x._dtype if dtype is None else as_dtype(dtype)
    name = TYPE_NAMES[wanted.name]
    if x._dtype.category < 2:
        text = (
            f"Expected a floating point or complex tensor as input. Got {TYPE_NAMES[x._dtype.name]}"
        )
    elif wanted.category < 2:
        text = f"dtype should be floating point or complex, but got {name}"
    elif wanted.category != x._dtype.category:
        kind = "complex" if x._dtype.is_complex else "real"
        text = f"dtype should be {kind} for {kind} inputs, but got {name}"
    elif promote(x._dtype, wanted) is not wanted:
        text = (
            f"the dtype of the input ({TYPE_NAMES[x._dtype.name]}) should be convertible without narrowing to the "
            f"specified dtype ({name})"
        )
    else:
        return cast(x, wanted)
    raise DTypeError(
        f"{function}: {text}",
        expected="a floating-point or complex tensor, and a dtype that holds its numbers",
        got=describe("x", x) + ("" if dtype is None else f", dtype {wanted.name}"),
        fix="convert x, or the norm",
    )


@cython.cfunc
def _over(
    input: TensorArgument, ord: Any, dim: Dims, keepdim: object, dtype: DTypeLike | None
) -> Any:
    """The norm of `vector_norm`, with its checks."""
    x: Tensor = need_tensor("vector_norm", input)
    if dtype is not None or x._dtype.category < 2:
        x = _converted("linalg.vector_norm", x, dtype)
    axes = reduced_axes(dim, len(x._shape))
    if isinstance(ord, str):
        raise ArgumentTypeError(
            "linalg_vector_norm(): argument 'ord' must be Number, not str",
            expected="a number",
            got=repr(ord),
            fix="use matrix_norm for 'fro' and 'nuc'",
        )
    two: cython.bint = ord == 2
    if not two and (ord < 0 or ord == math.inf) and axes and count_of(x._shape, axes) == 0:
        raise _without_identity(x, ord)
    kind = x._dtype if x._dtype.category == 2 else x._dtype.to_real()
    if two and axes and not keepdim and not needs_grad(x):  # no record that wants them kept
        return cast(_root_of_squares(widen(x), axes, False), kind)
    result = cast(_norm_kept(widen(x), float(ord), axes), kind)
    if keepdim:
        return result
    return reshape(result, reduced_shape(x._shape, axes, False))


def _without_identity(x: Tensor, ord: object) -> ShapeError:
    return ShapeError(
        f"linalg.vector_norm cannot compute the {ord:g} norm on an empty tensor because the operation does not have an "
        "identity",
        expected="at least one element to choose from",
        got=describe("x", x),
        fix="leave empty tensors out",
    )


def norm(
    input: TensorArgument,
    p: Any = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    out: TensorArgument | None = None,
    dtype: DTypeLike | None = None,
) -> Any:
    """The p-norm over dimensions (all unless given); "fro" is the 2-norm of the elements, "nuc" the sum of a matrix's
    singular values (read at the call)."""
    if p == "nuc":
        need_rank("norm", input, 2)
        _need_pair(dim)
        return matrix_norm(
            input, "nuc", (0, 1) if dim is None else dim, keepdim, dtype=dtype, out=out
        )
    if isinstance(p, str) and p != "fro":
        raise ArgumentError(
            f"linalg.matrix_norm: Order {p} not supported.",
            expected="'fro', 'nuc' or a number",
            got=repr(p),
            fix="choose one of these",
        )
    result = _over(input, 2 if p is None or p == "fro" else p, dim, keepdim, dtype)
    return result if out is None else write_out(out, result)


def _need_pair(dim: object) -> None:
    """Errors: ArgumentError where the dimensions of matrices are not two."""
    if dim is not None and not (isinstance(dim, (tuple, list)) and len(dim) == 2):
        listed = " ".join(map(str, dim)) if isinstance(dim, (tuple, list)) else str(dim)
        raise ArgumentError(
            f"linalg.matrix_norm: dim must be a 2-tuple. Got {listed}",
            expected="two dimensions",
            got=repr(dim),
            fix="pass the dimensions of the matrices",
        )


def matrix_norm(
    A: TensorArgument,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
    out: TensorArgument | None = None,
) -> Any:
    """The Frobenius, 1-, -1-, inf-, -inf-, 2-, -2- or nuclear norm of matrices. The last three read the values."""
    if len(need_tensor("matrix_norm", A, "A")._shape) < 2:
        raise ShapeError(
            "linalg.matrix_norm: The input tensor A must have at least 2 dimensions.",
            expected="matrices, or stacks of them",
            got=describe("A", A),
            fix="use vector_norm",
        )
    _need_pair(dim)
    if ord == "fro":
        return vector_norm(A, 2, dim, keepdim, dtype=dtype, out=out)
    if ord in ("nuc", 2, -2):
        result = _of_singular_values(A, ord, tuple(dim), keepdim, dtype)
        return result if out is None else write_out(out, result)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ArgumentError(
            f"linalg.matrix_norm: Order {ord} not supported.",
            expected="'fro', 'nuc', 1, -1, 2, -2, inf or -inf",
            got=repr(ord),
            fix="choose one of these",
        )
    rows, columns = dim if ord in (1, -1) else (dim[1], dim[0])
    sums = vector_norm(A, 1, rows, True, dtype=dtype)
    if ord > 0 and sums._shape[columns] == 0:
        result = reduce_over(_SUM, sums, reduced_axes(columns, len(sums._shape)), True, sums._dtype)
    else:
        result = vector_norm(sums, math.inf if ord > 0 else -math.inf, columns, True)
    if not keepdim:
        axes = reduced_axes(tuple(dim), len(A._shape))
        result = reshape(result, tuple(s for a, s in enumerate(A._shape) if a not in axes))
    return result if out is None else write_out(out, result)


def _of_singular_values(
    A: Tensor, ord: object, dim: Shape, keepdim: bool, dtype: DTypeLike | None
) -> Any:
    """The sum, the largest or the smallest of the singular values of matrices in two dimensions."""
    axes = reduced_axes(dim, len(A._shape))
    if len(axes) != 2 or len(dim) != 2:
        raise DimensionError(
            f"linalg.matrix_norm: dim must be a 2-tuple of distinct dimensions. Got {list(dim)}",
            expected="two dimensions",
            got=str(list(dim)),
            fix="pass the dimensions of the matrices",
        )
    matrix = _converted("linalg.matrix_norm", A, dtype)
    factored.need_precise("linalg.matrix_norm", matrix)
    values = singular_values.singular_values(movedim(matrix, axes, (-2, -1)))
    if ord == -2:
        result = values.amin(-1)
    elif ord == 2 and values._shape[-1]:
        result = values.amax(-1)
    else:
        result = values.sum(-1)  # the largest of no values is 0
    if keepdim:
        result = reshape(result, tuple([1 if a in axes else s for a, s in enumerate(A._shape)]))
    return result


def linalg_norm(
    A: TensorArgument,
    ord: Any = None,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    out: TensorArgument | None = None,
    dtype: DTypeLike | None = None,
) -> Any:
    """A vector norm, or a matrix norm where `ord` is given and two dimensions are meant.

    Errors: ShapeError where `ord` without `dim` meets another rank, or a matrix norm another number of dimensions.
    """
    pair = isinstance(dim, (tuple, list)) and len(dim) == 2
    if ord is not None and dim is None and len(A._shape) not in (1, 2):
        raise ShapeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{len(A._shape)}D.",
            expected="a vector or a matrix",
            got=describe("A", A),
            fix="name the dimensions with dim=",
        )
    if isinstance(ord, str) and dim is not None and not pair:
        raise ShapeError(
            f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}",
            expected="the two dimensions of a matrix",
            got=f"dim={dim}",
            fix="pass dim=(-2, -1), or a number for ord",
        )
    if ord is not None and (pair or (dim is None and len(A._shape) == 2)):
        return matrix_norm(
            A,
            ord,
            tuple(dim) if isinstance(dim, (tuple, list)) else (-2, -1),
            keepdim,
            dtype=dtype,
            out=out,
        )
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype, out=out)


def no_points(function: str, which: str, x: TensorArgument) -> DTypeError | UnsupportedDTypeError:
    """The error of points that are no float32 or float64: distances have no kernel for halves."""
    if x._dtype.category == 2:
        return no_kernel(function, x, "points of float32 or float64")
    return DTypeError(
        f"{function} only supports floating-point dtypes{which}",
        expected="points of float32 or float64",
        got=describe("input", x),
        fix="convert with .float(), or take the parts of complex numbers",
    )


_COMPUTE_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)


def check_order(name: str, p: float) -> None:
    """Errors: ArgumentError for a negative order of a distance."""
    if p < 0:
        raise ArgumentError(
            f"{name} only supports non-negative p values",
            expected="p >= 0",
            got=str(p),
            fix="pass 2 for the Euclidean distance",
        )


def cdist(
    x1: TensorArgument,
    x2: TensorArgument,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Any:
    """The p-norm distance of all pairs of rows. Shapes: (..., n, d), (..., m, d) -> (..., n, m).

    Euclidean gradients of many points are two products of matrices, unless `compute_mode` is
    "donot_use_mm_for_euclid_dist": they lose digits for points that are far from 0 and close together."""
    need_tensor("cdist", x1, "x1", 1)
    need_tensor("cdist", x2, "x2", 2)
    need_rank("cdist", x1, 2, "x1")
    need_rank("cdist", x2, 2, "x2")
    check_order("cdist", p)
    if x1._shape[-1] != x2._shape[-1]:
        raise ShapeError(
            f"X1 and X2 must have the same number of columns. X1: {x1._shape[-1]} X2: {x2._shape[-1]}",
            expected="points of one dimension",
            got=f"{describe('x1', x1)}, {describe('x2', x2)}",
            fix="check the last dimensions",
        )
    if compute_mode not in _COMPUTE_MODES:
        raise ArgumentError(
            f"{compute_mode} is not a valid value for compute_mode",
            expected=", ".join(_COMPUTE_MODES),
            got=repr(compute_mode),
            fix="leave compute_mode away",
        )
    for number, x in enumerate((x1, x2), 1):
        if not _is_wide(x._dtype):
            raise no_points("cdist", f", X{number} got: {TYPE_NAMES[x._dtype.name]}", x)
    products = compute_mode == "use_mm_for_euclid_dist" or (
        compute_mode == "use_mm_for_euclid_dist_if_necessary"
        and max(x1._shape[-2], x2._shape[-2]) > FEW_POINTS
    )
    if p != 2 or not products or x1._dtype is not x2._dtype:
        return vector_norm(_gaps(x1, x2), p, -1)
    lead = broadcast_shapes([x1._shape[:-2], x2._shape[:-2]], "cdist")
    x1, x2 = [expand(x, (*lead, *x._shape[-2:])) for x in (x1, x2)]
    with untracked():
        distances = vector_norm(_gaps(x1, x2), 2, -1)
    return record_gradient(OPS["cdist"], (x1, x2), None, distances)


def _is_wide(dtype: DType) -> bool:
    return dtype.category == 2 and dtype.itemsize > 2


def _gaps(x1: Tensor, x2: Tensor) -> Any:
    """The differences of all pairs of rows. Shapes: (..., n, d), (..., m, d) -> (..., n, m, d)."""
    return reshape(x1, (*x1._shape[:-1], 1, x1._shape[-1])) - reshape(
        x2, (*x2._shape[:-2], 1, *x2._shape[-2:])
    )


def trace(input: TensorArgument) -> Any:
    """The sum of the diagonal of a matrix. Errors: ShapeError, UnsupportedDTypeError on truth values."""
    if input._dtype.category == 0:
        raise no_kernel("trace", input, "numbers", ".long()")
    if len(input._shape) != 2:
        raise ShapeError(
            f"trace: expected a matrix, but got tensor with dim {len(input._shape)}",
            expected="a matrix",
            got=describe("input", input),
            fix="use diagonal(dim1=, dim2=).sum(-1) for matrices in a batch",
        )
    return sum(diagonal(input))


def dist(input: TensorArgument, other: TensorArgument, p: float = 2) -> Any:
    """The p-norm of input - other."""
    return norm(input - other, p)


FUNCTIONS = {"cdist": cdist, "norm": norm, "dist": dist, "trace": trace}
METHODS = {"norm": norm, "dist": dist, "trace": trace}
LINALG: dict[str, Any] = {
    "norm": linalg_norm,
    "vector_norm": vector_norm,
    "matrix_norm": matrix_norm,
}
