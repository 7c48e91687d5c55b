# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""softmax and log_softmax: the value from primitives, the gradient from one composite record."""

from __future__ import annotations

from typing import Any

import cython

from weft._compiled import require
from weft.errors import DTypeError
from weft.functional.arguments import (
    TYPE_NAMES,
    as_dtype,
    describe,
    need_tensor,
    untracked,
    widen,
    wrap_dim,
)
from weft.functional.reductions import reduce_over
from weft.graph.recording import cast, record_gradient
from weft.ops import TABLE
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import reshape, where

require(__name__, cython.compiled)

_AMAX, _SUM = TABLE["amax"], TABLE["sum"]
_SOFTMAX, _LOG_SOFTMAX = TABLE["softmax"], TABLE["log_softmax"]


def _prepared(name: str, input: Any, dim: Any, dtype: Any) -> tuple[Any, int, Any]:
    """The input in the type to compute in, the axis, and the type of the result."""
    need_tensor(name, input)
    if dtype is not None:
        input = cast(input, as_dtype(dtype))
    rank = len(input._shape)
    if dim is None:
        dim = 0 if rank in (0, 1, 3) else 1
    axis = wrap_dim(dim, rank)
    if input._dtype.category != 2:
        raise DTypeError(
            f"\"{name}_lastdim_kernel_impl\" not implemented for '{TYPE_NAMES[input._dtype.name]}'",
            expected="a floating-point tensor",
            got=describe("input", input),
            fix="pass dtype=weft.float32, convert with .float(), or take .abs() of complex numbers",
        )
    return widen(input), axis, input._dtype


def softmax(input: Any, dim: int | None = None, dtype: Any = None, *, _stacklevel: int = 3) -> Any:
    """exp(x) / sum(exp(x)) along a dimension."""
    x, axis, dtype = _prepared("softmax", input, dim, dtype)
    if not x._shape:
        return reshape(softmax(reshape(cast(input, dtype), (1,)), 0), ())
    if 0 in x._shape:
        return call("clone", cast(x, dtype))
    with untracked():
        powers = call("exp", x - reduce_over(_AMAX, x, (axis,), True, x._dtype))
        result = powers / reduce_over(_SUM, powers, (axis,), True, x._dtype)
    result.strides = None  # row-major, whatever the input's layout
    return cast(record_gradient(_SOFTMAX, (x,), (axis,), result), dtype)


def masked_softmax(x: Any) -> Any:
    """softmax over the last dimension of scores with -inf where masked; a row that is all masked gives zeros."""
    axis = len(x._shape) - 1
    with untracked():
        top = reduce_over(_AMAX, x, (axis,), True, x._dtype)
        powers = call("exp", x - where(top == -float("inf"), 0, top))
        total = reduce_over(_SUM, powers, (axis,), True, x._dtype)
        result = powers / where(total == 0, 1, total)
    return record_gradient(_SOFTMAX, (x,), (axis,), result)


def log_softmax(
    input: Any, dim: int | None = None, dtype: Any = None, *, _stacklevel: int = 3
) -> Any:
    """x - log(sum(exp(x))) along a dimension."""
    x, axis, dtype = _prepared("log_softmax", input, dim, dtype)
    if not x._shape:
        return reshape(log_softmax(reshape(cast(input, dtype), (1,)), 0), ())
    if 0 in x._shape:
        return call("clone", cast(x, dtype))
    with untracked():
        shifted = x - reduce_over(_AMAX, x, (axis,), True, x._dtype)
        result = shifted - call(
            "log", reduce_over(_SUM, call("exp", shifted), (axis,), True, x._dtype)
        )
    result.strides = None
    return cast(record_gradient(_LOG_SOFTMAX, (x,), (axis,), result), dtype)


FUNCTIONS: dict[str, Any] = {"softmax": softmax, "log_softmax": log_softmax}
METHODS: dict[str, Any] = dict(FUNCTIONS)
LATE: dict[str, Any] = {}
