# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Comparing tensors: isclose, allclose, equal; and filling: a number as an element of a type."""

from __future__ import annotations

from typing import Any

import cython

from weft._build.compiled import require
from weft._typing import Shape, TensorLike
from weft.engine.dispatch.type_names import OVERFLOW_NAMES
from weft.engine.frontend.inplace import mutate
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, DTypeError, ShapeError
from weft.functional.support import host
from weft.functional.support.variants import by_name
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import expand, full, reduce
from weft.tensor.arguments import TYPE_NAMES, describe, need_tensor
from weft.tensor.creation.python_data import need_fit

require(__name__, cython.compiled)

# -- filling -----------------------------------------------------------------------------------------


def fill_value(dtype: DType, value: Any) -> Any:
    """A number as an element of a type, as fill, masked_fill and index assignment convert it. Errors:
    RuntimeError on one that it cannot hold."""
    if isinstance(value, complex) and not dtype.is_complex:
        if value.imag:
            raise DTypeError(
                f"value cannot be converted to type {OVERFLOW_NAMES[dtype.name]} without overflow",
                expected=f"a number that {dtype.name} holds",
                got=repr(value),
                fix="pass a real number",
            )
        value = value.real
    if dtype.category == 0:
        return bool(value)
    need_fit(value, dtype)
    return int(value) if dtype.category == 1 else value


def _number_of(dtype: DType, shape: Shape, value: object) -> Any:
    """One number or 0-d tensor in every place of a shape."""
    if isinstance(value, Tensor):
        if value._shape:
            raise ShapeError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{len(value._shape)} dimensions.",
                expected="a number, or a tensor without dimensions",
                got=describe("value", value),
                fix="use copy_ for several values",
            )
        return call("clone", expand(cast(value, dtype), shape))
    return full(shape, fill_value(dtype, value), dtype)


def fill(input: Tensor, value: TensorLike) -> Any:
    """A tensor like input with `value` in every place."""
    need_tensor("fill", input, "input", 1)
    result = _number_of(input._dtype, input._shape, value)
    return mutate(call("clone", input), result) if input.requires_grad else result


def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """True where |input - other| <= atol + rtol * |other|, element by element."""
    _same_type("isclose", input, other)
    for name, limit in (("rtol", rtol), ("atol", atol)):
        if limit < 0:
            raise ArgumentError(
                f"{name} must be greater than or equal to zero, but got {limit}",
                expected=f"{name} >= 0",
                got=str(limit),
                fix="pass a limit of 0 or more",
            )
    close = input == other
    if equal_nan and input._dtype.category >= 2:
        close = close | ((input != input) & (other != other))
    if input._dtype.category == 0 or (rtol == 0 and atol == 0):
        return close
    if input._dtype.category == 1:
        input, other = cast(input, dtypes.float64), cast(other, dtypes.float64)
    gap = call("abs", input - other)
    return close | (call("isfinite", gap) & (gap <= atol + call("abs", other * rtol)))


def _same_type(name: str, input: Tensor, other: Tensor) -> None:
    need_tensor(name, input, "input", 1)
    need_tensor(name, other, "other", 2)
    if input._dtype is not other._dtype:
        raise DTypeError(
            f"{TYPE_NAMES[input._dtype.name]} did not match {TYPE_NAMES[other._dtype.name]}",
            expected="two tensors of one type",
            got=f"{describe('input', input)}, {describe('other', other)}",
            fix="convert one with .to(other.dtype)",
        )


def _read_bool(tensor: Tensor) -> bool:
    return bool(host.to_numpy(tensor))


def _all(tensor: Tensor) -> Any:
    return reduce("all", tensor, tuple(range(tensor.ndim))) if tensor.ndim else tensor


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """True if all elements are close (`isclose`). Reads the values."""
    return _read_bool(_all(isclose(input, other, rtol, atol, equal_nan)))


def equal(input: Tensor, other: Tensor) -> bool:
    """True if two tensors have one shape and equal elements, of whatever types. Reads the values."""
    need_tensor("equal", input)
    need_tensor("equal", other, "other", 2)
    return input._shape == other._shape and _read_bool(_all(input == other))


FUNCTIONS = by_name(fill, isclose, allclose, equal)
METHODS: dict[str, Any] = dict(FUNCTIONS)
