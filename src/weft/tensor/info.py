"""Facts about dtypes: limits, promotion, casting, the default dtype, and short names.

`weft.engine.ir.dtype` has the promotion lattice itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from weft.compat.absent import AbsentType
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentTypeError, class_name
from weft.tensor.scalars import is_scalar, scalar_dtype


def _dtype(name: str, value: DType) -> DType:
    """Errors: TypeError on what is no dtype."""
    if type(value) is DType:
        return value
    raise ArgumentTypeError(
        f"{name}(): argument 'type' (position 1) must be weft.dtype, not {class_name(value)}",
        expected="such as weft.float32",
        got=repr(value),
        fix="pass one of weft's dtypes",
    )


class finfo:  # noqa: N801  (the public name)
    """Limits of a floating-point type (the default one unless given); of a complex type, those of its parts.

    Errors: TypeError on integer types.

    Args:
        dtype: a dtype of floats or of complex numbers; None: the default dtype.

    Example:
        >>> import weft
        >>> weft.finfo(weft.float32).eps == 2.0**-23
        True
    """

    def __init__(self, dtype: DType | AbsentType | None = None) -> None:
        if type(dtype) is AbsentType and dtype.is_complex:
            dtype = dtypes.float16
        if type(dtype) is AbsentType:
            self.dtype, self.bits, self.resolution = dtype.name, 8, 1.0
            self.eps, self.max, self.tiny = dtype.eps, dtype.max, dtype.tiny
            self.min = self.tiny if dtype.name == "float8_e8m0fnu" else -self.max
            self.smallest_normal = self.tiny
            return
        named = cast(DType | None, dtype)
        given = dtypes.get_default() if named is None else _dtype("finfo", named)
        real = given.to_real()
        if not real.is_floating_point:
            raise ArgumentTypeError(
                f"weft.finfo() requires a floating point input type. Use weft.iinfo to handle "
                f"'{real.name}'",
                expected="a floating-point dtype",
                got=real.name,
                fix="use weft.iinfo",
            )
        self.dtype, self.bits = real.name, real.itemsize * 8
        if real is dtypes.bfloat16:
            self.eps, self.resolution = 2.0**-7, 0.01
            self.max, self.tiny = (2.0 - 2.0**-7) * 2.0**127, 2.0**-126
        else:
            limits = np.finfo(real.numpy)
            self.eps, self.resolution = float(limits.eps), 10.0**-limits.precision
            self.max, self.tiny = float(limits.max), float(limits.tiny)
        self.min, self.smallest_normal = -self.max, self.tiny

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:.6g}, min={self.min:.6g}, max={self.max:.6g}, eps={self.eps:.6g}, "
            f"smallest_normal={self.tiny:.6g}, tiny={self.tiny:.6g}, dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class iinfo:  # noqa: N801  (the public name)
    """Limits of an integer type. Errors: TypeError on other types.

    Args:
        dtype: a dtype of integers.

    Example:
        >>> import weft
        >>> weft.iinfo(weft.int8).max
        127
    """

    def __init__(self, dtype: DType) -> None:
        if _dtype("iinfo", dtype).category != 1:
            raise ArgumentTypeError(
                f"weft.iinfo() requires an integer input type. Use weft.finfo to handle "
                f"'{dtype.name}'",
                expected="an integer dtype",
                got=dtype.name,
                fix="use weft.finfo",
            )
        limits = np.iinfo(dtype.numpy)
        self.dtype, self.bits = dtype.name, dtype.itemsize * 8
        self.min, self.max = int(limits.min), int(limits.max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


def promote_types(type1: DType, type2: DType) -> DType:
    """The smallest type that holds both."""
    return dtypes.promote(type1, type2)  # type: ignore[no-any-return]


def result_type(tensor1: Tensor, tensor2: Tensor | float) -> DType:
    """The type of an operation on two tensors or numbers."""
    return joint_type((tensor1, tensor2))


def joint_type(operands: Iterable[Tensor | float]) -> DType:
    """The type of an operation on tensors or numbers. Errors: TypeError for anything else."""
    pairs = []
    for operand in operands:
        if isinstance(operand, Tensor):
            pairs.append((operand._dtype, 2 if operand._shape else 1))
        elif is_scalar(operand):
            pairs.append((scalar_dtype(operand), 0))
        else:
            raise ArgumentTypeError(
                "result_type(): arguments must be Tensors or numbers",
                expected="tensors, numbers",
                got=repr(operand),
                fix="convert with weft.tensor(...)",
            )
    found: DType = dtypes.result_dtype(pairs)
    return found


def can_cast(from_: DType, to: DType) -> bool:
    """True if a conversion keeps the category: not from complex to real, float to integer, or a number to bool."""
    return bool(from_.category <= to.category) and not (
        to is dtypes.bool_ and from_ is not dtypes.bool_
    )


def set_default_dtype(d: DType) -> None:
    """Set the type that Python floats become. Errors: TypeError unless it is a floating-point type."""
    dtypes.set_default(d)


def get_default_dtype() -> DType:
    """The type that Python floats become."""
    return dtypes.get_default()  # type: ignore[no-any-return]


def is_tensor(obj: object) -> bool:
    """True if an object is a tensor."""
    return isinstance(obj, Tensor)


NAMES = {
    "float16": dtypes.float16,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "float32": dtypes.float32,
    "float": dtypes.float32,
    "float64": dtypes.float64,
    "double": dtypes.float64,
    "complex64": dtypes.complex64,
    "cfloat": dtypes.complex64,
    "complex128": dtypes.complex128,
    "cdouble": dtypes.complex128,
    "uint8": dtypes.uint8,
    "int8": dtypes.int8,
    "int16": dtypes.int16,
    "short": dtypes.int16,
    "int32": dtypes.int32,
    "int": dtypes.int32,
    "int64": dtypes.int64,
    "long": dtypes.int64,
    "bool": dtypes.bool_,
    "uint16": dtypes.uint16,
    "uint32": dtypes.uint32,
    "uint64": dtypes.uint64,
}

FUNCTIONS: dict[str, Any] = {
    **NAMES,
    "dtype": DType,
    "finfo": finfo,
    "iinfo": iinfo,
    "promote_types": promote_types,
    "result_type": result_type,
    "can_cast": can_cast,
    "set_default_dtype": set_default_dtype,
    "get_default_dtype": get_default_dtype,
    "is_tensor": is_tensor,
}
METHODS: dict[str, Any] = {}
