# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Choosing and comparing: where, masked_fill, isclose, allclose, equal, dist; and numbers as elements of a type."""

from __future__ import annotations

import warnings
from typing import Any

import cython

from weft._build.compiled import require
from weft.engine.dispatch.type_names import C_NAMES
from weft.engine.frontend.inplace import mutate
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.resolve import rename_record
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, DTypeError, ShapeError
from weft.functional.indexing.overlapping_writes import taking_overlaps
from weft.functional.support import host
from weft.functional.support.memory_formats import in_order
from weft.functional.support.variants import by_name, make_in_place, write_out
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import expand, full, reduce
from weft.ops.primitives import where as where_value
from weft.tensor.arguments import TYPE_NAMES, describe, need_tensor
from weft.tensor.data import need_fit

require(__name__, cython.compiled)

# -- selection and filling -----------------------------------------------------------------------------------------


def where(condition: Any, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """input where the condition holds, else other, broadcast; with the condition alone, the indices where it holds."""
    need_tensor("where", condition, "condition")
    if input is None and other is None:
        from weft.functional.indexing.index import nonzero

        return nonzero(condition, as_tuple=True)
    if condition._dtype not in (dtypes.bool_, dtypes.uint8):
        raise DTypeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{TYPE_NAMES[condition._dtype.name]}",
            expected="a bool tensor",
            got=describe("condition", condition),
            fix="compare first, as in condition != 0",
        )
    if condition._dtype is not dtypes.bool_:
        warnings.warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future "
            "version of PyTorch. Use a boolean condition instead.",
            UserWarning,
            stacklevel=1,  # compiled functions have no frames
        )
    mask = condition if condition._dtype is dtypes.bool_ else cast(condition, dtypes.bool_)
    result = where_value(mask, input, other)
    return result if out is None else write_out(out, result)


def _method_where(self: Any, condition: Any, other: Any) -> Any:
    """self where the condition holds, else other."""
    return where(condition, self, other)


def fill_value(dtype: Any, value: Any) -> Any:
    """A number as an element of a type, as fill, masked_fill and index assignment convert it. Errors:
    RuntimeError on one that it cannot hold."""
    if isinstance(value, complex) and not dtype.is_complex:
        if value.imag:
            raise DTypeError(
                f"value cannot be converted to type {dtype.name} without overflow",
                expected=f"a number that {dtype.name} holds",
                got=repr(value),
                fix="pass a real number",
            )
        value = value.real
    if dtype.category == 0:
        return bool(value)
    need_fit(value, dtype)
    return int(value) if dtype.category == 1 else value


def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """`value` where the mask holds, input elsewhere, in input's type. Errors: DTypeError on masks that are not bool."""
    need_tensor("masked_fill", mask, "mask", 2)
    need_tensor("masked_fill", input)
    if mask._dtype is not dtypes.bool_:
        kind = C_NAMES.get(mask._dtype.name, mask._dtype.name)
        raise DTypeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {kind}",
            expected="a bool mask",
            got=describe("mask", mask),
            fix="compare first, as in mask != 0",
        )
    if isinstance(value, Tensor):
        if value._shape != ():
            raise ArgumentError(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{len(value._shape)} dimension(s).",
                expected="a number or a 0-d tensor",
                got=describe("value", value),
                fix="use weft.where(mask, value, input)",
            )
        if value._dtype.is_complex and not input._dtype.is_complex:
            raise DTypeError(
                f"value cannot be converted to type {input._dtype.name} without overflow",
                expected=f"a value that {input._dtype.name} holds",
                got=describe("value", value),
                fix="pass value.real",
            )
        result = in_order(where_value(mask, cast(value, input._dtype), input))
        return rename_record(result, "MaskedFillBackward1")
    result = in_order(where_value(mask, fill_value(input._dtype, value), input))
    return rename_record(result, "MaskedFillBackward0")


def _number_of(dtype: Any, shape: Any, value: Any) -> Any:
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


def fill(input: Any, value: Any) -> Any:
    """A tensor like input with `value` in every place."""
    need_tensor("fill", input, "input", 1)
    result = _number_of(input._dtype, input._shape, value)
    return mutate(call("clone", input), result) if input.requires_grad else result


def isclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Whether |input - other| <= atol + rtol * |other|, element by element."""
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
    if input._dtype.category == 0:
        return close
    if input._dtype.category == 1:
        input, other = cast(input, dtypes.float64), cast(other, dtypes.float64)
    gap = call("abs", input - other)
    return close | (call("isfinite", gap) & (gap <= atol + call("abs", other * rtol)))


def _same_type(name: str, input: Any, other: Any) -> None:
    need_tensor(name, input, "input", 1)
    need_tensor(name, other, "other", 2)
    if input._dtype is not other._dtype:
        raise DTypeError(
            f"{TYPE_NAMES[input._dtype.name]} did not match {TYPE_NAMES[other._dtype.name]}",
            expected="two tensors of one type",
            got=f"{describe('input', input)}, {describe('other', other)}",
            fix="convert one with .to(other.dtype)",
        )


def _read_bool(tensor: Any) -> bool:
    return bool(host.to_numpy(tensor))


def _all(tensor: Any) -> Any:
    return reduce("all", tensor, tuple(range(tensor.ndim))) if tensor.ndim else tensor


def allclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close (`isclose`). Reads the values."""
    return _read_bool(_all(isclose(input, other, rtol, atol, equal_nan)))


def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have one type, one shape and equal elements. Reads the values."""
    need_tensor("equal", input)
    need_tensor("equal", other, "other", 2)
    if input._dtype is not other._dtype:
        return False
    return input._shape == other._shape and _read_bool(_all(input == other))


def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The p-norm of input - other."""
    from weft.functional.linalg.norms import norm

    return norm(input - other, p)


FUNCTIONS = by_name(masked_fill, fill, isclose, allclose, equal, dist, where)
METHODS: dict[str, Any] = {**FUNCTIONS, "where": _method_where}
METHODS["masked_fill_"] = taking_overlaps(make_in_place(masked_fill))
