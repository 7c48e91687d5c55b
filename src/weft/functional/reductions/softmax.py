# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""softmax and log_softmax: the value from primitives, the gradient from one composite record."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import cython
from cython.cimports.weft.engine.frontend.recorder import cast, record, record_elementwise
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.primitive import Primitive

from weft._build.compiled import require
from weft._typing import Dims
from weft.engine.dispatch.type_names import no_kernel_for
from weft.engine.frontend.recorder import record_gradient
from weft.engine.ir.dtype import DType
from weft.errors import UnsupportedDTypeError
from weft.functional.reductions.sums_and_extrema import reduced_shape
from weft.ops import OPS
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import reshape, where
from weft.tensor.arguments import (
    as_dtype,
    describe,
    need_tensor,
    untracked,
    widen,
    wrap_dim,
)

if TYPE_CHECKING:
    from weft._typing import Shape


require(__name__, cython.compiled)

_AMAX = cython.declare(Primitive, OPS["amax"])
_SUM = cython.declare(Primitive, OPS["sum"])
_EXP = cython.declare(Primitive, OPS["exp"])
_LOG = cython.declare(Primitive, OPS["log"])
_SOFTMAX, _LOG_SOFTMAX = OPS["softmax"], OPS["log_softmax"]


def _prepared(
    name: str, input: Tensor, dim: Dims, dtype: DType | int | None
) -> tuple[Any, int, Any]:
    """The input in the type to compute in, the axis, and the type of the result."""
    need_tensor(name, input)
    if dtype is not None:
        input = cast(input, as_dtype(dtype))
    rank = len(input._shape)
    if dim is None:
        dim = 0 if rank in (0, 1, 3) else 1
        warnings.warn(
            f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
            "argument.",
            UserWarning,
            stacklevel=1,
        )
    axis = wrap_dim(dim, rank)
    if input._dtype.category != 2:
        raise UnsupportedDTypeError(
            no_kernel_for(f"{name}_lastdim_kernel_impl", input._dtype.name),
            expected="a floating-point tensor",
            got=describe("input", input),
            fix="pass dtype=weft.float32, convert with .float(), or take .abs() of complex numbers",
        )
    return widen(input), axis, input._dtype


@cython.cfunc
@cython.locals(x=Tensor, shape=tuple)
def _over(op: Primitive, x: Tensor, axis: int, shape: Shape) -> Any:
    """A reduction over one axis, which stays with size 1, as `shape` says."""
    return record(op, (x,), ((axis,), True), shape, x._dtype)


def softmax(
    input: Tensor, dim: int | None = None, dtype: int | DType | None = None, *, _stacklevel: int = 3
) -> Any:
    """exp(x) / sum(exp(x)) along a dimension."""
    x, axis, dtype = _prepared("softmax", input, dim, dtype)
    if not x._shape:
        return reshape(softmax(reshape(cast(input, dtype), (1,)), 0), ())
    if 0 in x._shape:
        return call("clone", cast(x, dtype))
    with untracked():
        shape = reduced_shape(x._shape, (axis,), True)
        powers = record_elementwise(_EXP, (x - _over(_AMAX, x, axis, shape),), None)
        result = powers / _over(_SUM, powers, axis, shape)
    result.strides = None  # row-major, whatever the input's layout
    return cast(record_gradient(_SOFTMAX, (x,), (axis,), result), dtype)


def masked_softmax(x: Tensor) -> Any:
    """softmax over the last dimension of scores with -inf where masked; a row that is all masked gives zeros."""
    axis = len(x._shape) - 1
    with untracked():
        shape = reduced_shape(x._shape, (axis,), True)
        top = _over(_AMAX, x, axis, shape)
        powers = record_elementwise(_EXP, (x - where(top == -float("inf"), 0, top),), None)
        total = _over(_SUM, powers, axis, shape)
        result = powers / where(total == 0, 1, total)
    return record_gradient(_SOFTMAX, (x,), (axis,), result)


def log_softmax(
    input: Tensor, dim: int | None = None, dtype: int | None = None, *, _stacklevel: int = 3
) -> Any:
    """x - log(sum(exp(x))) along a dimension."""
    x, axis, dtype = _prepared("log_softmax", input, dim, dtype)
    if not x._shape:
        return reshape(log_softmax(reshape(cast(input, dtype), (1,)), 0), ())
    if 0 in x._shape:
        return call("clone", cast(x, dtype))
    with untracked():
        shape = reduced_shape(x._shape, (axis,), True)
        shifted = x - _over(_AMAX, x, axis, shape)
        powers = record_elementwise(_EXP, (shifted,), None)
        total = _over(_SUM, powers, axis, shape)
        result = shifted - record_elementwise(_LOG, (total,), None)
    result.strides = None
    return cast(record_gradient(_LOG_SOFTMAX, (x,), (axis,), result), dtype)


FUNCTIONS: dict[str, Any] = {"softmax": softmax, "log_softmax": log_softmax}
METHODS: dict[str, Any] = dict(FUNCTIONS)
