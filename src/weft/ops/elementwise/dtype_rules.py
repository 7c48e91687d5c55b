"""Dtype rules that elementwise rows share: operations that need an order, or a number, and results that are discrete.

A rule takes the dtype of the operands after promotion and returns the result's, or raises an error that names the
operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.engine.dispatch.type_names import no_kernel_for
from weft.engine.ir import dtype as dtypes
from weft.errors import UnsupportedDTypeError
from weft.ops.registry import Rule, not_differentiable

if TYPE_CHECKING:
    from weft.engine.ir.dtype import DType


REAL_TYPES = "bool integer float"
INDEX_VALUES = not_differentiable(
    "the result takes discrete values: its derivative is zero or undefined everywhere"
)


def ordered(name: str, compares: bool = False, divides: bool = False) -> Rule:
    """The dtype rule of an operation that needs an order: complex numbers have none. Nor does bool divide."""

    def dtype(params: object, operand: DType) -> Any:
        if divides:
            need_number(name, operand)
        if operand.is_complex:
            raise UnsupportedDTypeError(
                no_kernel_for(name, operand.name),
                expected="real operands",
                got=operand.name,
                fix="compare .abs(), .real or .imag",
            )
        return dtypes.bool_ if compares else operand

    return dtype


def need_number(name: str, operand: Any) -> Any:
    if operand.category == 0:
        raise UnsupportedDTypeError(
            no_kernel_for(name, "bool"),
            expected="numeric operands",
            got="bool",
            fix="convert one operand first",
        )
    return operand
