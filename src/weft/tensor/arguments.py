# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Checking what a caller passed: tensors, dimensions, sizes, numbers.

Arguments come in as the user wrote them; what goes out is what the recorder wants (non-negative dimensions, plain
tuples), or an error at the call with PyTorch's text as its first line.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

import cython
import numpy as np
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.tape import current_tape

from weft._build.compiled import require
from weft.engine.dispatch.type_names import C_NAMES, TYPE_NAMES, no_kernel_for
from weft.engine.frontend.node_factory import MOST_ELEMENTS
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DimensionError,
    DTypeError,
    ShapeError,
    UnsupportedDTypeError,
    class_name,
)

require(__name__, cython.compiled)

Shape = tuple[int, ...]
Dims = int | Sequence[int] | None
Number = int | float | complex | bool

_RANKS = 8  # ranks up to which tuples of axes exist already
_ALL = [tuple(range(rank)) for rank in range(_RANKS)]
_SINGLE = [(axis,) for axis in range(_RANKS)]


def describe(name: str, tensor: Tensor) -> str:
    """`a float32[64, 103]` for an error text."""
    return f"{name} {tensor._dtype.name}{list(tensor._shape)}"


def no_fraction(name: str, factor: float, tensors: str) -> DTypeError:
    """The error of a factor that is no integer, for tensors of integers."""
    return DTypeError(
        f"For integral input tensors, argument {name} must not be a floating point number.",
        expected=f"an integer {name}",
        got=f"{name}={factor} for {tensors}",
        fix="pass an int, or convert the tensors with .float()",
    )


def no_kernel(
    kernel: str, tensor: Tensor, expected: str = "floating-point numbers", fix: str = ".float()"
) -> UnsupportedDTypeError:
    """The error of a dtype that an operation does not take, in the words of PyTorch's kernel."""
    return UnsupportedDTypeError(
        no_kernel_for(kernel, tensor._dtype.name),
        expected=expected,
        got=describe("input", tensor),
        fix=f"convert with {fix}",
    )


def need_tensor(function: str, value: object, argument: str = "input", position: int = 1) -> Any:
    """The value itself, if it is a tensor. Errors: ArgumentTypeError."""
    if isinstance(value, Tensor):
        return value
    raise ArgumentTypeError(
        f"{function}(): argument '{argument}' (position {position}) must be Tensor, not {class_name(value)}",
        expected="a weft.Tensor",
        got=type(value).__name__,
        fix="convert it with weft.tensor(...)",
    )


def _as_integer(dim: object) -> int:
    try:
        return operator.index(dim)
    except TypeError as error:
        raise ArgumentTypeError(
            f"argument 'dim' must be int, not {class_name(dim)}",
            expected="an integer",
            got=repr(dim),
            fix="pass one dimension",
        ) from error


def integer_of(value: object, alone: bool = False) -> int | None:
    """A value that is one integer, Python's, NumPy's or that of a tensor without dimensions (`alone`: with one
    element), as Python's; None for all others, floats too."""
    if isinstance(value, int):
        return int(value)
    if not hasattr(type(value), "__index__"):
        return None
    if isinstance(value, Tensor) and value._dtype.category >= 2:
        return None
    if getattr(value, "shape", ()) != () and not (
        alone and isinstance(value, Tensor) and value.numel() == 1
    ):
        return None
    try:
        return operator.index(value)
    except TypeError:  # an array of NumPy whose element is none
        return None


def per_dimension(argument: str, value: object, count: int = 1) -> tuple[Any, ...]:
    """One integer for each of `count` dimensions, or a sequence as it is given. Errors: ArgumentTypeError."""
    integer = integer_of(value)
    if integer is not None:
        return (integer,) * count
    if isinstance(value, Iterable) and getattr(value, "shape", None) != ():
        return tuple(value)
    raise ArgumentTypeError(
        f"argument '{argument}' must be int or tuple of ints, not {class_name(value)}",
        expected="an integer, or a sequence of integers",
        got=describe(argument, value) if isinstance(value, Tensor) else repr(value),
        fix="convert it with int()",
    )


def is_empty(value: object) -> bool:
    """True if a value is a sequence without elements."""
    return isinstance(value, (tuple, list)) and not value


def need_integer(
    function: str, value: object, argument: str, least: int = -(2**63), most: int = 2**63 - 1
) -> int:
    """An integer argument between `least` and `most`, also that of a tensor with one element. Errors:
    ArgumentTypeError, ArgumentError."""
    number = integer_of(value, True)
    if number is None:
        raise _no_integer(function, value, argument)
    if not least <= number <= most:
        raise ArgumentError(
            f"{function}(): argument '{argument}' is out of range, got {number}",
            expected=f"{least} <= {argument} <= {most}",
            got=str(number),
            fix="check how it was computed",
        )
    return number


def need_number(function: str, value: object, argument: str) -> int:
    """An integer argument where a bool would be a mistake. Errors: ArgumentTypeError, ArgumentError."""
    if isinstance(value, bool):
        raise _no_integer(function, value, argument)
    return need_integer(function, value, argument)


def _no_integer(function: str, value: object, argument: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{function}(): argument '{argument}' must be int, not {class_name(value)}",
        expected="an integer",
        got=describe(argument, value) if isinstance(value, Tensor) else repr(value),
        fix="convert it with int()",
    )


def need_flag(function: str, value: object, argument: str) -> bool:
    """True or False. Errors: ArgumentTypeError."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ArgumentTypeError(
        f"{function}(): argument '{argument}' must be bool, not {class_name(value)}",
        expected="True or False",
        got=describe(argument, value) if isinstance(value, Tensor) else repr(value),
        fix="pass a bool",
    )


# What PyTorch says where a tensor has too few dimensions: of a function, argument, number, plural, actual number.
_RANK_TEXT = "{0}(): expected '{1}' to have at least {2} dimension{3}, got {4}"
_RANK_TEXTS = {
    "fliplr": "Input must be >= 2-d.",
    "flipud": "Input must be >= 1-d.",
    "group_norm": "Expected at least 2 dimensions for input tensor but received {4}",
    "narrow": "narrow() cannot be applied to a 0-dim tensor.",
    "tensor_split": "tensor_split expected at least a 1-dimensional tensor, but got a tensor with {4} dims",
    "rot90": "expected total dims >= 2, but got total dims = {4}",
}


def need_rank(function: str, tensor: Tensor, least: int, argument: str = "input") -> None:
    """Errors: ShapeError where a tensor has fewer dimensions than `least`."""
    if len(tensor._shape) < least:
        raise ShapeError(
            _RANK_TEXTS.get(function, _RANK_TEXT).format(
                function, argument, least, "s" if least > 1 else "", len(tensor._shape)
            ),
            expected=f"at least {least} dimension{'s' if least > 1 else ''}",
            got=describe(argument, tensor),
            fix=f"add dimensions with {argument}.unsqueeze(0)",
        )


def wrap_dim(dim: SupportsIndex | Sequence[int] | None, rank: int) -> int:
    """A dimension counted from the front. A tensor without dimensions takes 0 and -1. Errors: DimensionError."""
    limit = rank or 1
    if not isinstance(dim, int):
        dim = _as_integer(dim)
    if -limit <= dim < limit:
        return int(dim + limit if dim < 0 else dim)
    raise DimensionError(
        f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})",
        expected=f"-{limit} <= dim < {limit}",
        got=f"dim={dim} for a tensor of {rank} dimensions",
        fix="count the dimensions of the tensor with .ndim",
    )


def wrap_dims(dims: Dims, rank: int) -> Shape:
    """Dimensions in the order given, each once. Errors: DimensionError, ShapeError."""
    if not isinstance(dims, (tuple, list)):
        return (wrap_dim(dims, rank),)
    wrapped = tuple([wrap_dim(dim, rank) for dim in dims])
    if len(set(wrapped)) != len(wrapped):
        twice = next(dim for dim in wrapped if wrapped.count(dim) > 1)
        raise ShapeError(
            f"dim {twice} appears multiple times in the list of dims",
            expected="distinct dimensions",
            got=str(list(dims)),
            fix="name each dimension once",
        )
    return wrapped


def reduced_axes(dim: Dims, rank: int) -> Shape:
    """The axes of a reduction, ascending; None and an empty list mean all of them."""
    if dim is None:
        return all_axes(rank)
    if isinstance(dim, int):
        axis = wrap_dim(dim, rank)
        return _SINGLE[axis] if rank and axis < _RANKS else (axis,) if rank else ()
    wrapped = wrap_dims(dim, rank)
    return tuple(sorted(wrapped)) if wrapped and rank else all_axes(rank)


def all_axes(rank: int) -> Shape:
    """0, 1, ..., up to a rank."""
    return _ALL[rank] if rank < _RANKS else tuple(range(rank))


def sizes(arguments: tuple[object, ...], name: str = "size") -> Shape:
    """Sizes given as separate integers or as one sequence, as a tuple of int."""
    if (
        len(arguments) == 1
        and not isinstance(arguments[0], int)
        and hasattr(arguments[0], "__iter__")
        and getattr(arguments[0], "ndim", 1) > 0
    ):
        arguments = arguments[0]
    try:
        found = tuple([operator.index(size) for size in arguments])
    except TypeError as error:
        raise ArgumentTypeError(
            f"{name}: sizes must be integers",
            expected="integers, or one sequence of integers",
            got=repr(arguments),
            fix="convert sizes with int()",
        ) from error
    if any([not -MOST_ELEMENTS <= size <= MOST_ELEMENTS for size in found]):
        raise ShapeError(
            f"{name}: a dimension is too large",
            expected=f"sizes of at most {MOST_ELEMENTS}",
            got=repr(arguments),
            fix="check how the size was computed",
        )
    return found


def is_number(value: object) -> bool:
    """True if a value is a Python number (NumPy's scalars included)."""
    return isinstance(value, (int, float, complex)) or (
        hasattr(value, "dtype")
        and not isinstance(value, Tensor)
        and getattr(value, "shape", None) == ()
    )


def need_floating(function: str, tensor: Tensor) -> None:
    """Errors: DTypeError, with PyTorch's text for kernels that integers lack."""
    if tensor._dtype.category < 2:
        raise UnsupportedDTypeError(
            no_kernel_for(function, tensor._dtype.name),
            expected="a floating-point tensor",
            got=describe("input", tensor),
            fix="convert with .float() first",
        )


def widen(tensor: object) -> Any:
    """float16 and bfloat16 as float32: composed functions compute there and round once at the end."""
    return (
        cast(tensor, dtypes.float32)
        if tensor._dtype.itemsize == 2 and tensor._dtype.category == 2
        else tensor
    )


# PyTorch's types for Python's: their own width, whatever the default dtype is.
_OF_PYTHON: dict[object, DType] = {
    bool: dtypes.bool_,
    int: dtypes.int64,
    float: dtypes.float64,
    complex: dtypes.complex128,
}


def as_dtype(dtype: object) -> DType:
    """A DType from a DType or one of Python's number types."""
    if type(dtype) is DType:
        return dtype
    found = _OF_PYTHON.get(dtype)
    if found is None:
        raise ArgumentTypeError(
            f"dtype must be weft.dtype, not {class_name(dtype)}",
            expected="such as weft.float32",
            got=repr(dtype),
            fix=getattr(dtype, "fix", "pass weft.float32, weft.int64, ..."),
        )
    return found


@cython.final
@cython.cclass
class untracked:
    """Records values without gradient edges inside a `with` (the value side of a composite)."""

    mode = cython.declare(Mode)
    before = cython.declare(cython.bint)

    def __enter__(self) -> None:
        self.mode = current_tape().mode
        self.before = self.mode.grad
        self.mode.grad = False

    def __exit__(self, *error: object) -> None:
        self.mode.grad = self.before


__all__ = [
    "C_NAMES",
    "TYPE_NAMES",
    "Dims",
    "Number",
    "Shape",
    "as_dtype",
    "describe",
    "integer_of",
    "is_number",
    "is_empty",
    "need_flag",
    "need_floating",
    "need_integer",
    "need_rank",
    "need_tensor",
    "per_dimension",
    "reduced_axes",
    "sizes",
    "untracked",
    "widen",
    "wrap_dim",
    "wrap_dims",
]
