"""Arguments of the array API standard: promotion by its lattice, numbers with arrays, axes, devices.

Arrays and numbers become tensors of one dtype. PyTorch's promotion counts a zero-dimensional tensor for less than
others; the standard's does not, so operands are cast here before an operation sees them.
"""

from __future__ import annotations

import operator
from typing import Any

import weft
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ArgumentTypeError
from weft.tensor.device import need_cpu

Axes = int | tuple[int, ...] | None


def need_array(name: str, x: object) -> Tensor:
    """The array itself. Errors: TypeError on anything else."""
    if isinstance(x, Tensor):
        return x
    raise ArgumentTypeError(
        f"{name}: an array is expected, not {type(x).__name__}",
        expected="a weft.Tensor",
        got=type(x).__name__,
        fix="make one with xp.asarray(...)",
    )


def on_device(name: str, device: object) -> None:
    """Errors: RuntimeError on a device that is not there."""
    if device is not None:
        need_cpu(device, name)


def scalar_type(name: str, number: object, dtype: DType) -> DType:
    """The type of an operation on arrays of one type and a number. Errors: TypeError on a number of a higher kind."""
    category = dtypes.of_scalar(number).category
    if category > dtype.category and (category < 3 or dtype.category != 2):
        raise ArgumentTypeError(
            f"{name}: Python {type(number).__name__} with an array of {dtype.name}",
            expected=f"a number of the kind of {dtype.name}",
            got=repr(number),
            fix="convert the array with xp.astype, or make an array of the number",
        )
    if category == 0 and dtype.category:
        return dtype
    return dtype.to_complex() if category == 3 else dtype


def joined(name: str, *operands: object) -> list[Tensor]:
    """Arrays and numbers as arrays of one type, by the standard's promotion.

    Errors: TypeError without an array, and where a number does not fit.
    """
    wanted = joined_type(name, *[x._dtype if isinstance(x, Tensor) else x for x in operands])
    return [
        (x if x._dtype is wanted else x.to(wanted))
        if isinstance(x, Tensor)
        else weft.tensor(x, dtype=wanted)
        for x in operands
    ]


def joined_type(name: str, *operands: object) -> DType:
    """The type of an operation on types and numbers."""
    types = [x for x in operands if isinstance(x, DType)]
    numbers = [x for x in operands if not isinstance(x, DType)]
    if not types:
        raise ArgumentTypeError(
            f"{name}: at least one operand has to be an array",
            expected="an array and a number, or arrays",
            got=", ".join(type(x).__name__ for x in operands) or "nothing",
            fix="make one with xp.asarray(...)",
        )
    found = types[0]
    for dtype in types[1:]:
        found = dtypes.promote(found, dtype)
    for number in numbers:
        if not isinstance(number, bool | int | float | complex):
            need_array(name, number)
        found = scalar_type(name, number, found)
    return found


def axes_of(name: str, x: Tensor, axis: Axes) -> tuple[int, ...]:
    """Axes as ascending numbers from 0; all of them for None. Errors: IndexError, ValueError on an axis given twice."""
    if axis is None:
        return tuple(range(x.ndim))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    found = sorted(one_axis(name, x.ndim, a) for a in given)
    if len(set(found)) < len(found):
        raise ArgumentError(
            f"{name}: an axis is given twice",
            expected="different axes",
            got=repr(axis),
            fix="name each axis once",
        )
    return tuple(found)


def one_axis(name: str, ndim: int, axis: Any) -> int:
    """An axis as a number from 0. Errors: IndexError."""
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise weft.errors.DimensionError(
            f"{name}: axis {number} of an array with {ndim} dimensions",
            expected=f"-{ndim} to {ndim - 1}" if ndim else "an array with dimensions",
            got=str(number),
            fix="choose an axis of the array",
        )
    return number % ndim


def refuse(name: str, wrong: str, expected: str, got: object, fix: str) -> None:
    """Errors: ValueError, always."""
    raise ArgumentError(f"{name}: {wrong}", expected=expected, got=str(got), fix=fix)
