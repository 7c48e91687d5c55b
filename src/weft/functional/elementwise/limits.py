# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Element-wise limits: `clamp` and its kin, the larger and the smaller of two where one may be nan, numbers for nan."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft._typing import TensorLike
from weft.engine.dispatch.type_names import no_kernel_for
from weft.engine.frontend.recorder import cast, record_elementwise, record_gradient
from weft.engine.frontend.tensor import Tensor
from weft.errors import (
    ArgumentError,
    UnsupportedDTypeError,
)
from weft.functional.support.variants import (
    by_name,
    in_place_variants,
    named,
    write_out,
)
from weft.ops import OPS
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import expand, full, where
from weft.ops.registry import named as named_op
from weft.tensor.arguments import (
    describe,
    need_tensor,
    untracked,
)
from weft.tensor.info import joint_type

if TYPE_CHECKING:
    from weft.engine.ir.dtype import DType


require(__name__, cython.compiled)

_CLAMP_BY_NUMBERS, _CLAMP = OPS["clamp"], OPS["clamp_between"]
_BOUNDS = {name: named_op(OPS[name], "ClampBackward1") for name in ("clamp_min", "clamp_max")}
_TENSOR_BOUNDS = {name: named_op(op, "ClampBackward0") for name, op in _BOUNDS.items()}


def clamp(
    input: Tensor,
    min: TensorLike | None = None,
    max: TensorLike | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """Each element limited to [min, max]; the bounds are numbers or tensors. Where min > max the result is max."""
    if not isinstance(input, Tensor):
        need_tensor("clamp", input)
    if min is None and max is None:
        raise ArgumentError(
            "torch.clamp: At least one of 'min' or 'max' must not be None",
            expected="a bound",
            got="min=None, max=None",
            fix="pass min=, max= or both",
        )
    if min is None or max is None:
        if input._dtype.is_complex:
            raise _no_clamp(input)
        name, bound = ("clamp_max", max) if min is None else ("clamp_min", min)
        rows = _TENSOR_BOUNDS if isinstance(bound, Tensor) else _BOUNDS
        result = record_elementwise(rows[name], (input, bound), None)
    else:
        result = _clamp_between(input, min, max)
    return result if out is None else write_out(out, result)


def _no_clamp(x: Tensor) -> UnsupportedDTypeError:
    return UnsupportedDTypeError(
        "clamp is not supported for complex types",
        expected="real numbers, which have an order",
        got=describe("input", x),
        fix="limit the absolute value",
    )


def _clamp_between(x: Tensor, low: object, high: object) -> Any:
    """Both bounds: two limits of the value, one gradient record. Of three tensors, those with dimensions decide on the
    type before those without."""
    if x._dtype.is_complex:
        raise _no_clamp(x)
    with untracked():
        start = x
        if isinstance(low, Tensor) and isinstance(high, Tensor):
            start = cast(x, joint_type((x, low, high)))
        result = call("clamp_max", call("clamp_min", start, low), high)
    dtype, shape = result._dtype, result._shape
    if dtype.category == 0:
        raise UnsupportedDTypeError(
            no_kernel_for("clamp", "bool"),
            expected="numeric operands",
            got=describe("input", x),
            fix="convert one operand first",
        )
    x = cast(x, dtype)
    if not isinstance(low, Tensor) and not isinstance(high, Tensor):
        return record_gradient(_CLAMP_BY_NUMBERS, (x,), (low, high), result)
    bounds = [cast(b, dtype) if isinstance(b, Tensor) else full((), b, dtype) for b in (low, high)]
    operands = (expand(x, shape), expand(bounds[0], shape), expand(bounds[1], shape))
    return record_gradient(_CLAMP, operands, None, result)


def clamp_min(input: Tensor, min: TensorLike, *, out: Tensor | None = None) -> Any:
    """Each element, at least min."""
    result = call("clamp_min", need_tensor("clamp_min", input), min)
    return result if out is None else write_out(out, result)


def clamp_max(input: Tensor, max: TensorLike, *, out: Tensor | None = None) -> Any:
    """Each element, at most max."""
    result = call("clamp_max", need_tensor("clamp_max", input), max)
    return result if out is None else write_out(out, result)


def _extremum(name: str, precedes: Callable[..., object], which: str) -> Any:
    def function(input: object, other: TensorLike, *, out: Tensor | None = None) -> Any:
        need_tensor(name, input)
        need_tensor(name, other, "other", 2)
        result = where(precedes(input, other) | call("isnan", other), input, other)
        return result if out is None else write_out(out, result)

    return named(function, name, f"The {which} of two elements, the other one where one is nan.")


fmax = _extremum("fmax", operator.ge, "larger")
fmin = _extremum("fmin", operator.le, "smaller")


def nan_to_num(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """nan, +inf and -inf replaced by numbers: 0, the largest and the smallest finite one unless given."""
    need_tensor("nan_to_num", input)
    if input._dtype.is_complex:
        parts = [nan_to_num(part, nan, posinf, neginf) for part in (input.real, input.imag)]
        result = call("complex", *parts)
    elif input._dtype.category < 2:
        result = call("clone", input)
    else:
        top = _largest(input._dtype)
        result = where(call("isnan", input), 0.0 if nan is None else nan, input)
        result = where(input == math.inf, top if posinf is None else posinf, result)
        result = where(input == -math.inf, -top if neginf is None else neginf, result)
    return result if out is None else write_out(out, result)


def _largest(dtype: DType) -> float:

    return 3.3895313892515355e38 if dtype.numpy is None else float(np.finfo(dtype.numpy).max)


FUNCTIONS: dict[str, Any] = by_name(clamp, clamp_min, clamp_max, fmax, fmin, nan_to_num)
FUNCTIONS["clip"] = clamp
METHODS: dict[str, Any] = {
    **FUNCTIONS,
    **in_place_variants(FUNCTIONS, "clamp clip clamp_min clamp_max nan_to_num"),
}
