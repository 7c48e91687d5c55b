# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Selection by a mask: `where` and `masked_fill`.

A mask and two choices for each element become one node. `where` with a mask alone is `nonzero`.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import cython

from weft._build.compiled import require
from weft.engine.dispatch.type_names import C_NAMES, OVERFLOW_NAMES
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.resolve import rename_record
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, DTypeError
from weft.functional.elementwise.comparison import fill_value
from weft.functional.indexing.index import nonzero
from weft.functional.indexing.overlapping_writes import taking_overlaps
from weft.functional.support.memory_formats import in_order
from weft.functional.support.variants import by_name, make_in_place, write_out
from weft.ops.primitives import where as where_value
from weft.tensor.arguments import TYPE_NAMES, describe, need_tensor

if TYPE_CHECKING:
    from weft._typing import TensorLike


require(__name__, cython.compiled)


def where(
    condition: Tensor,
    input: Any = None,
    other: Any = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """input where the condition holds, else other, broadcast; with the condition alone, the indices where it holds."""
    need_tensor("where", condition, "condition")
    if input is None and other is None:
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


def _method_where(self: Tensor, condition: Tensor, other: TensorLike) -> Any:
    """self where the condition holds, else other."""
    return where(condition, self, other)


def masked_fill(input: Tensor, mask: Tensor, value: TensorLike) -> Any:
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
                f"value cannot be converted to type {OVERFLOW_NAMES[input._dtype.name]} without overflow",
                expected=f"a value that {input._dtype.name} holds",
                got=describe("value", value),
                fix="pass value.real",
            )
        result = in_order(where_value(mask, cast(value, input._dtype), input))
        return rename_record(result, "MaskedFillBackward1")
    result = in_order(where_value(mask, fill_value(input._dtype, value), input))
    return rename_record(result, "MaskedFillBackward0")


FUNCTIONS = by_name(where, masked_fill)
METHODS: dict[str, Any] = {
    "where": _method_where,
    "masked_fill": masked_fill,
    "masked_fill_": taking_overlaps(make_in_place(masked_fill)),
}
