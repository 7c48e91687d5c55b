"""`weft._prims_common`: what type an operation computes in, and what type its result has, for PyTorch's tests."""

from __future__ import annotations

from enum import Enum
from typing import Any

import weft
from weft.engine.ir.dtype import DType

_PYTHON_TYPES = {"is_complex": complex, "is_floating_point": float}
_LETTERS = {"float": "f", "bfloat": "bf", "complex": "c", "int": "i", "uint": "u"}
_INTEGERS = "uint8 int8 int16 int32 int64 uint16 uint32 uint64"
_OTHERS = "float16 bfloat16 float32 float64 complex32 complex64 complex128"
# Types that are computed in another one.
_OPMATH = {"float16": "float32", "bfloat16": "float32"}


def _short(name: str) -> str:
    word = name.rstrip("0123456789")
    return _LETTERS[word] + name.removeprefix(word)


# Short names of types: f32, i64, b8.
dtype_abbrs = {getattr(weft, name): _short(name) for name in f"{_INTEGERS} {_OTHERS}".split()} | {
    weft.bool: "b8"
}


class ELEMENTWISE_TYPE_PROMOTION_KIND(Enum):  # noqa: N801 - PyTorch's name
    """Rules by which an operation's types follow from those of its operands."""

    DEFAULT = 0
    NO_OPMATH = 1
    INT_TO_FLOAT = 2
    ALWAYS_BOOL = 3
    COMPLEX_TO_FLOAT = 4
    BOOL_TO_LONG = 5


def dtype_to_type(dtype: DType) -> type:
    """The type of Python's numbers that hold such elements."""
    if dtype is weft.bool:
        return bool
    return next((made for asked, made in _PYTHON_TYPES.items() if getattr(dtype, asked)), int)


def _promoted(operands: tuple[object, ...]) -> DType:
    """The type that all operands have in common: tensors with dimensions before those without, numbers last."""
    made: Any = operands[0]
    for operand in operands[1:]:
        made = weft.empty(
            (1,) * _ndim(made, operand),
            dtype=weft.result_type(made, operand),  # type: ignore[arg-type]
        )
    return made.dtype if isinstance(made, weft.Tensor) else weft.tensor(made).dtype


def _ndim(*operands: object) -> int:
    return max(
        (operand.ndim for operand in operands if isinstance(operand, weft.Tensor)), default=0
    )


def elementwise_dtypes(
    *_args: object, type_promotion_kind: ELEMENTWISE_TYPE_PROMOTION_KIND
) -> tuple[DType, DType]:
    """The type that an operation computes in, and the type of its result."""
    kinds = ELEMENTWISE_TYPE_PROMOTION_KIND
    made = _promoted(_args)
    if type_promotion_kind is kinds.INT_TO_FLOAT and not (
        made.is_floating_point or made.is_complex
    ):
        made = weft.get_default_dtype()
    if type_promotion_kind is kinds.BOOL_TO_LONG and made is weft.bool:
        made = weft.int64
    computed = getattr(weft, _OPMATH.get(made.name, made.name))
    if type_promotion_kind is kinds.NO_OPMATH:
        return made, made
    if type_promotion_kind is kinds.ALWAYS_BOOL:
        return computed, weft.bool
    if type_promotion_kind is kinds.COMPLEX_TO_FLOAT and made.is_complex:
        return computed, weft.tensor((), dtype=made).real.dtype
    return computed, made


def corresponding_real_dtype(dtype: DType) -> DType:
    """The type of the parts of a complex type."""
    return weft.empty((), dtype=dtype).real.dtype


def corresponding_complex_dtype(dtype: DType) -> DType:
    """The complex type of parts of a type; of float16 a type that is only a name."""
    return weft.complex32 if dtype is weft.float16 else dtype.to_complex()
