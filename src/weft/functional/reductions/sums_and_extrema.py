# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Reductions: sum, mean, prod, extrema, logic, variance, counting; and the running sums.

`dim` may be None (all), an integer, or several; `keepdim` keeps reduced dimensions with size 1.
A tensor comes in, one or two reduce nodes and their epilogue go on the tape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import cython
from cython.cimports.weft.engine.frontend.recorder import cast, record, record_elementwise
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.primitive import Primitive

from weft._build.compiled import require
from weft.engine.dispatch.type_names import no_kernel_for
from weft.engine.frontend.recorder import record_gradient
from weft.engine.frontend.resolve import rename_record
from weft.engine.ir import dtype as dtypes
from weft.errors import DimensionError, DTypeError, ShapeError, UnsupportedDTypeError
from weft.functional.support.return_types import TYPES
from weft.functional.support.variants import by_name, write_out
from weft.ops import OPS
from weft.ops.primitives import cumulate, gather, reshape, where
from weft.ops.primitives import elementwise as call
from weft.ops.registry import named
from weft.tensor.arguments import (
    TYPE_NAMES,
    Dims,
    Shape,
    as_dtype,
    describe,
    is_empty,
    need_tensor,
    reduced_axes,
    untracked,
    widen,
    wrap_dim,
)

if TYPE_CHECKING:
    from weft._typing import DTypeLike, TensorArgument
    from weft.engine.ir.dtype import DType


require(__name__, cython.compiled)

_SUM, _CLONE, _MEAN = OPS["sum"], OPS["clone"], OPS["mean"]
_LOGSUMEXP = OPS["logsumexp"]
_SUM_OVER, _MEAN_OVER = named(_SUM, "SumBackward1"), named(_MEAN, "MeanBackward1")


@cython.ccall
def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdim: bool) -> Any:
    """The shape that is left after reducing over axes."""
    rank: cython.Py_ssize_t = len(shape)
    if len(axes) == rank:
        return (1,) * rank if keepdim else ()
    sizes: list[int] = []
    axis: cython.Py_ssize_t
    for axis in range(rank):
        if axis not in axes:
            sizes.append(shape[axis])
        elif keepdim:
            sizes.append(1)
    return tuple(sizes)


@cython.ccall
def reduce_over(
    op: Primitive, x: Tensor, axes: tuple[int, ...], keepdim: bool, dtype: DType
) -> Any:
    """Record one reduction over `axes` (ascending, in range)."""
    if not axes:
        clone = record_elementwise(_CLONE, (x,), None)
        return clone if dtype is x._dtype else cast(clone, dtype)
    shape = reduced_shape(x._shape, axes, keepdim)
    return record(op, (x,), (axes, keepdim), shape, dtype)


# -- sums ----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.locals(x=Tensor)
def _in_result_type(x: Tensor, dtype: DTypeLike | None, out: Tensor | None) -> Tensor:
    """An operand in the type of its sum or product: `dtype` or that of `out`; int64 for integers and bool without."""
    if dtype is None and out is not None:
        dtype = out._dtype
    if dtype is not None:
        return cast(x, as_dtype(dtype))
    return cast(x, dtypes.int64) if x._dtype.category < 2 else x


def sum(
    input: TensorArgument,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
    out: TensorArgument | None = None,
) -> Any:
    """The sum over dimensions. Integers and bool sum to int64; a sum of type bool says whether any is true."""
    if not isinstance(input, Tensor):
        need_tensor("sum", input)
    x: Tensor = _in_result_type(input, dtype, out)
    if x._dtype is dtypes.bool_:
        found = _logic("any", x, dim, keepdim)
        return found if out is None else write_out(out, found)
    axes = reduced_axes(dim, len(x._shape))
    op = _SUM if dim is None else _SUM_OVER
    result = reduce_over(op, x, axes, bool(keepdim), x._dtype)
    return result if out is None else write_out(out, result)


def nansum(
    input: TensorArgument,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Any:
    """The sum over dimensions with nan counted as 0."""
    need_real("nansum", input)
    return sum(where(call("isnan", input), 0, input), dim, keepdim, dtype=dtype)


def count_of(shape: Shape, axes: Shape) -> int:
    """The number of elements that a reduction over `axes` folds into one."""
    total = 1
    for axis in axes:
        total *= shape[axis]
    return total


def _need_inexact(name: str, input: Tensor, dtype: DTypeLike | None) -> Any:
    if dtype is not None:
        input = cast(input, as_dtype(dtype))
    if input._dtype.category < 2:
        kind = "Input" if dtype is None else "Optional"
        raise DTypeError(
            f"{name}(): could not infer output dtype. {kind} dtype must be either a floating point or "
            f"complex dtype. Got: {TYPE_NAMES[input._dtype.name]}",
            expected="a floating-point tensor",
            got=describe("input", input),
            fix="pass dtype=weft.float32, or convert with .float()",
        )
    return input


def mean(
    input: TensorArgument,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
    out: TensorArgument | None = None,
) -> Any:
    """The mean over dimensions. Errors: DTypeError on integers."""
    if not isinstance(input, Tensor):
        need_tensor("mean", input)
    x: Tensor = input
    if dtype is not None or x._dtype.category < 2:
        x = _need_inexact("mean", x, dtype)
    axes = reduced_axes(dim, len(x._shape))
    with untracked():
        wide: Tensor = widen(x)
        total = reduce_over(_SUM, wide, axes, bool(keepdim), wide._dtype)
        result = cast(total / count_of(x._shape, axes), x._dtype)
    op = _MEAN if dim is None else _MEAN_OVER
    result = record_gradient(op, (x,), (axes, bool(keepdim)), result)
    return result if out is None else write_out(out, result)


def nanmean(
    input: TensorArgument,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Any:
    """The mean over dimensions of what is not nan."""
    need_real("nanmean", input)
    x = _need_inexact("nanmean", input, dtype)
    count = sum(x == x, dim, keepdim)
    return nansum(x, dim, keepdim) / count


def prod(
    input: TensorArgument,
    dim: SupportsIndex | None = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
    out: TensorArgument | None = None,
) -> Any:
    """The product of all elements or along one dimension. Integers and bool multiply to int64; a product of type bool
    says whether all are true."""
    need_tensor("prod", input)
    input = _in_result_type(input, dtype, out)
    if input._dtype is dtypes.bool_:
        found = _logic("all", input, _single_axis(dim, len(input._shape)), keepdim)
        return found if out is None else write_out(out, found)
    axes = _single_axis(dim, len(input._shape))
    result = reduce_over(OPS["prod"], input, axes, bool(keepdim), input._dtype)
    return result if out is None else write_out(out, result)


# -- extrema -------------------------------------------------------------------------------------------------------


def need_elements(name: str, input: Tensor, axes: Shape) -> None:
    """Errors: DimensionError where an extremum would be of nothing."""
    for axis in axes:
        if input._shape[axis] == 0:
            raise DimensionError(
                f"{name}(): Expected reduction dim {axis} to have non-zero size.",
                expected="at least one element to choose from",
                got=describe("input", input),
                fix="check .numel() first",
            )


def need_any(name: str, input: Tensor) -> None:
    if 0 in input._shape:
        error = DimensionError if name.startswith("arg") else ShapeError
        raise error(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument.",
            expected="at least one element",
            got=describe("input", input),
            fix="pass dim=, or check .numel() first",
        )


def need_real(name: str, input: Tensor) -> None:
    if input._dtype.is_complex:
        raise UnsupportedDTypeError(
            no_kernel_for(name, input._dtype.name),
            expected="a real tensor",
            got=describe("input", input),
            fix="compare .abs() or .real",
        )


def _extreme(
    name: str,
    other_name: str,
    input: TensorArgument,
    dim: TensorArgument | int | None,
    keepdim: bool,
    other: TensorArgument | None,
) -> Any:
    need_tensor(name, input)
    need_real(name, input)
    if isinstance(dim, Tensor):
        dim, other = None, dim
    if other is not None:
        return call(other_name, input, other)
    if dim is None:
        need_any(name, input)
        return extreme_of_all(name, input, tuple(range(len(input._shape))), False)
    axis = wrap_dim(dim, len(input._shape))
    if not input._shape:
        return TYPES[name]((call("clone", input), call("clone", cast(input * 0, dtypes.int64))))
    need_elements(name, input, (axis,))
    values, places = first_extreme(name, input, (axis,), bool(keepdim))
    return TYPES[name]((values, places if keepdim else reshape(places, values._shape)))


def extreme_of_all(name: str, x: Tensor, axes: Shape, keepdim: bool) -> Any:
    """The max or min over axes; equal elements share the gradient evenly, and so do nans."""
    with untracked():
        values = reduce_over(OPS[f"a{name}"], x, axes, keepdim, x._dtype)
    return record_gradient(OPS[f"{name}_all"], (x,), (axes, keepdim), values)


def first_extreme(name: str, x: Tensor, axes: Shape, keepdim: bool) -> tuple[Any, Any]:
    """The max or min over axes, and the first place where it stands (dimensions kept), which gets the gradient."""
    places = reduce_over(OPS[f"arg{name}"], x, axes, True, dtypes.int64)
    with untracked():
        values = reduce_over(OPS[f"a{name}"], x, axes, keepdim, x._dtype)
    return record_gradient(OPS[name], (x, places), (axes, keepdim), values), places


def picked(name: str, input: Tensor, axis: int, indices: Tensor, keepdim: bool) -> Any:
    """The values at one index per line along an axis, and these indices, as a function returns them."""
    values = gather(input, axis, indices)
    if keepdim:
        return TYPES[name]((values, indices))
    shape = (*input._shape[:axis], *input._shape[axis + 1 :])
    return TYPES[name]((reshape(values, shape), reshape(indices, shape)))


def max(
    input: TensorArgument,
    dim: TensorArgument | int | None = None,
    keepdim: bool = False,
    *,
    other: TensorArgument | None = None,
    out: TensorArgument | None = None,
) -> Any:
    """The largest element (ties share the gradient); with `dim`, values and first indices; of two, `maximum`."""
    result = _extreme("max", "maximum", input, dim, keepdim, other)
    return result if out is None else write_out(out, result)


def min(
    input: TensorArgument,
    dim: TensorArgument | int | None = None,
    keepdim: bool = False,
    *,
    other: TensorArgument | None = None,
    out: TensorArgument | None = None,
) -> Any:
    """The smallest element (ties share the gradient); with `dim`, values and first indices; of two, `minimum`."""
    result = _extreme("min", "minimum", input, dim, keepdim, other)
    return result if out is None else write_out(out, result)


def amax(
    input: TensorArgument,
    dim: Dims = (),
    keepdim: bool = False,
    *,
    out: TensorArgument | None = None,
) -> Any:
    """The largest element over dimensions; ties share the gradient evenly."""
    return _amax("amax", input, dim, keepdim, out)


def amin(
    input: TensorArgument,
    dim: Dims = (),
    keepdim: bool = False,
    *,
    out: TensorArgument | None = None,
) -> Any:
    """The smallest element over dimensions; ties share the gradient evenly."""
    return _amax("amin", input, dim, keepdim, out)


def _amax(
    name: str, input: TensorArgument, dim: Dims, keepdim: bool, out: TensorArgument | None
) -> Any:
    need_tensor(name, input)
    need_real(name, input)
    axes = reduced_axes(dim, len(input._shape))
    if dim is None or is_empty(dim):
        need_any(name, input)
    need_elements(name, input, axes)
    if isinstance(out, Tensor) and out._dtype is not input._dtype:
        raise DTypeError(
            f"Expected the dtype for input and out to match, but got {TYPE_NAMES[input._dtype.name]} for input's "
            f"dtype and {TYPE_NAMES[out._dtype.name]} for out's dtype.",
            expected=describe("input", input),
            got=describe("out", out),
            fix="make out of the input's type",
        )
    result = reduce_over(OPS[name], input, axes, bool(keepdim), input._dtype)
    return result if out is None else write_out(out, result)


Extremes = TYPES["aminmax"]


def aminmax(
    input: TensorArgument, *, dim: SupportsIndex | None = None, keepdim: bool = False
) -> Any:
    """(min, max): both extremes, over a dimension or over everything."""
    if dim is None and 0 in need_tensor("aminmax", input)._shape:
        raise ShapeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.",
            expected="at least one element",
            got=describe("input", input),
            fix="pass dim=, or check .numel() first",
        )
    dims = _single_axis(dim, len(input._shape))
    found = amin(input, dims, keepdim), amax(input, dims, keepdim)
    return Extremes([rename_record(result, "AminmaxBackward0") for result in found])


def _single_axis(dim: SupportsIndex | None, rank: int) -> Shape:
    """One axis, or all of them for None."""
    if dim is None:
        return tuple(range(rank))
    axis = wrap_dim(dim, rank)
    return (axis,) if rank else ()


def _arg(name: str, input: TensorArgument, dim: SupportsIndex | None, keepdim: bool) -> Any:
    need_tensor(name, input)
    need_real(name, input)
    if input._dtype.category == 0:
        raise DTypeError(
            f"{name}(): does not support bool input",
            expected="a numeric tensor",
            got=describe("input", input),
            fix="convert with .int() first",
        )
    if dim is None:
        need_any(name, input)
    axes = _single_axis(dim, len(input._shape))
    need_elements(name, input, axes)
    if not axes:
        return cast(input * 0, dtypes.int64)
    return reduce_over(OPS[name], input, axes, bool(keepdim), dtypes.int64)


def argmax(input: TensorArgument, dim: SupportsIndex | None = None, keepdim: bool = False) -> Any:
    """The index of the first largest element, in the flattened tensor or along `dim`."""
    return _arg("argmax", input, dim, keepdim)


def argmin(input: TensorArgument, dim: SupportsIndex | None = None, keepdim: bool = False) -> Any:
    """The index of the first smallest element, in the flattened tensor or along `dim`."""
    return _arg("argmin", input, dim, keepdim)


# -- logic and counting --------------------------------------------------------------------------------------------


def _logic(name: str, input: TensorArgument, dim: Dims, keepdim: bool) -> Any:
    need_tensor(name, input)
    none = isinstance(dim, (tuple, list)) and not dim  # no dimensions, not all of them
    axes = () if none else reduced_axes(dim, len(input._shape))
    result = reduce_over(OPS[name], cast(input, dtypes.bool_), axes, bool(keepdim), dtypes.bool_)
    return cast(result, dtypes.uint8) if input._dtype is dtypes.uint8 else result


def any(input: TensorArgument, dim: Dims = None, keepdim: bool = False) -> Any:
    """True where any element along the reduced dimensions is true (not 0)."""
    return _logic("any", input, dim, keepdim)


def all(input: TensorArgument, dim: Dims = None, keepdim: bool = False) -> Any:
    """True where all elements along the reduced dimensions are true (not 0)."""
    return _logic("all", input, dim, keepdim)


def count_nonzero(input: TensorArgument, dim: Dims = None) -> Any:
    """The number of elements that are not 0."""
    return sum(input != 0, dim)


# -- logsumexp and running sums ------------------------------------------------------------------------------------


def _real(x: Tensor) -> Any:
    return call("real", x) if x._dtype.is_complex else x


def _wrapped_angle(x: Tensor) -> Any:
    """A logarithm with its imaginary part in (-pi, pi]."""
    if not x._dtype.is_complex:
        return x
    top = call("real", x)
    return call("log", call("exp", x - top)) + top


def logsumexp(
    input: TensorArgument, dim: Dims, keepdim: bool = False, *, out: TensorArgument | None = None
) -> Any:
    """log(sum(exp(x))) without overflow; its gradient is the softmax."""
    need_tensor("logsumexp", input)
    axes = reduced_axes(dim, len(input._shape))
    dtype = input._dtype if input._dtype.category > 1 else dtypes.get_default()
    wide = widen(cast(input, dtype))
    if not axes:
        return _wrapped_angle(call("clone", cast(input, dtype)))
    if wide._dtype.is_complex or 0 in input._shape:
        result = _logsumexp_steps(wide, axes)
    else:
        params = tuple([axis - len(wide._shape) for axis in axes])
        result = record(
            _LOGSUMEXP, (wide,), params, reduced_shape(wide._shape, axes, True), wide._dtype
        )
    result = cast(result, dtype)
    if not keepdim:
        result = reshape(result, reduced_shape(input._shape, axes, False))
    return result if out is None else write_out(out, result)


def _logsumexp_steps(wide: Tensor, axes: tuple[int, ...]) -> Any:
    """logsumexp step by step, for complex numbers and for no elements; reduced dimensions stay."""
    if 0 in wide._shape:
        return call("log", reduce_over(_SUM, call("exp", wide), axes, True, wide._dtype))
    top = reduce_over(OPS["amax"], _real(wide.detach()), axes, True, wide._dtype.to_real())
    top = where(call("isfinite", top), top, 0)
    total = reduce_over(_SUM, call("exp", wide - top), axes, True, wide._dtype)
    return call("log", total) + top


def _running(name: str, input: TensorArgument, dim: SupportsIndex, dtype: DTypeLike | None) -> Any:
    need_tensor(name, input)
    if dtype is not None:
        input = cast(input, as_dtype(dtype))
    elif input._dtype.category < 2:
        input = cast(input, dtypes.int64)
    axis = wrap_dim(dim, len(input._shape))
    return cumulate(name, input, axis) if input._shape else call("clone", input)


def cumsum(
    input: TensorArgument,
    dim: SupportsIndex,
    *,
    dtype: DTypeLike | None = None,
    out: TensorArgument | None = None,
) -> Any:
    """Running sums along a dimension; integers and bool run in int64."""
    result = _running("cumsum", input, dim, dtype)
    return result if out is None else write_out(out, result)


def cumprod(
    input: TensorArgument,
    dim: SupportsIndex,
    *,
    dtype: DTypeLike | None = None,
    out: TensorArgument | None = None,
) -> Any:
    """Running products along a dimension; the gradient is exact with any number of zeros."""
    result = _running("cumprod", input, dim, dtype)
    return result if out is None else write_out(out, result)


def sum_to_size(input: TensorArgument, *size: int | Sequence[int]) -> Any:
    """The tensor summed to a shape that broadcasts to its own."""
    from weft.ops.primitives import sum_to
    from weft.tensor.arguments import sizes

    shape = sizes(size)
    lead = len(input._shape) - len(shape)
    fits = lead >= 0 and not [
        1 for a, b in zip(input._shape[lead:], shape, strict=True) if b not in (1, a)
    ]
    if not fits:
        raise ShapeError(
            f"size {{{list(shape)}}} is not expandable to size {{{list(input._shape)}}}.",
            expected="a shape that broadcasts to the tensor's",
            got=describe("input", input),
            fix="use reshape, or sum over dimensions",
        )
    whole = input._dtype.category < 2 and (not shape or shape != input._shape)
    total = sum_to(cast(input, dtypes.int64) if whole else input, shape)
    return call("clone", total) if total is input and not shape else total


FUNCTIONS = by_name(
    sum, nansum, mean, nanmean, prod, max, min, amax, amin, aminmax, argmax, argmin, any, all, count_nonzero,
    logsumexp, cumsum, cumprod,
)  # fmt: skip
METHODS: dict[str, Any] = {**FUNCTIONS, "sum_to_size": sum_to_size}
