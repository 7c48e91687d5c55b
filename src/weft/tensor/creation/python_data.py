"""Python data as arrays: numbers, nested lists, buffers, NumPy arrays, into raw elements of a dtype.

It takes the argument of `weft.tensor` and returns an array of raw elements and its dtype, by PyTorch's rules of
inference: Python floats take the default dtype, NumPy scalars and tensors keep theirs. `creation` makes a tensor of
them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeGuard

import numpy as np

from weft.engine.dispatch.type_names import OVERFLOW_NAMES
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ArgumentTypeError, DTypeError, KindError, NumberRangeError
from weft.tensor.info import finfo
from weft.tensor.memory.host_memory import bfloat16_bits, raw_dtype, values_array
from weft.tensor.reading.values import warn_of_gradient

SUPPORTED = (
    "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, "
    "and bool"
)
MOST_DIMENSIONS = 64
_ARRAYS = (Tensor, np.ndarray)
_NESTED = (list, tuple, range, *_ARRAYS)


def dtype_of_array(array: np.ndarray) -> DType:
    """The DType of a NumPy array. Errors: TypeError if there is none."""
    if not array.dtype.isnative:
        raise ArgumentError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders "
            "is currently not supported.",
            expected="native byte order",
            got=str(array.dtype),
            fix="convert it with array.astype(array.dtype.newbyteorder('='))",
        )
    found = dtypes.from_numpy(array.dtype)
    if found is None:
        raise ArgumentTypeError(
            f"can't convert np.ndarray of type numpy.{array.dtype.type.__name__}. The only supported types are: "
            f"{SUPPORTED}.",
            expected=SUPPORTED,
            got=str(array.dtype),
            fix="convert the array with .astype(...)",
        )
    return found


def convert(array: np.ndarray, dtype: DType) -> Any:
    """Raw elements of a dtype from an array of numbers."""
    if dtype is dtypes.bfloat16:
        return bfloat16_bits(array.real if array.dtype.kind == "c" else array)
    target = raw_dtype(dtype)
    if array.dtype == target:
        return array
    if array.dtype.kind == "c" and target.kind not in "cb":
        array = array.real
    if target.kind in "iu" and array.dtype.kind == "f":
        array = _truncate(array, target)
    with np.errstate(all="ignore"):
        if dtype is dtypes.float16 and array.dtype == np.float64:
            array = array.astype(np.float32)
        return array.astype(target)


def _truncate(array: np.ndarray, target: Any) -> Any:
    """Floats to integers toward zero, held at the ends of the range; nan becomes 0."""
    info = np.iinfo(target)
    whole = np.trunc(
        np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    )
    inside = np.clip(whole, float(info.min), np.nextafter(float(info.max) + 1.0, 0.0))
    return (
        np.where(whole > info.max, info.max, inside.astype(target)) if info.bits == 64 else inside
    )


# -- inference -----------------------------------------------------------------------------------------------------


def _leaf_types(data: Any) -> set[Any]:
    """The types, NumPy dtypes and DTypes of the leaves of nested sequences, level by level."""
    found: set[Any] = set()
    level, depth = list(data), 1
    while level:
        kinds = set(map(type, level))
        nested = {kind for kind in kinds if issubclass(kind, _NESTED)}
        found |= kinds - nested
        if not nested:
            break
        depth += 1
        if depth > MOST_DIMENSIONS:
            raise _too_deep()
        parts = {id(part): part for part in level if type(part) in nested}  # each once
        found |= {_dtype_of_part(part) for part in parts.values() if isinstance(part, _ARRAYS)}
        below = (part for part in parts.values() if not isinstance(part, _ARRAYS))
        level = list(chain.from_iterable(below))
    return found


def _too_deep() -> ArgumentError:
    return ArgumentError(
        "too many dimensions",
        expected=f"sequences nested at most {MOST_DIMENSIONS} deep",
        got="a deeper one, perhaps one that contains itself",
        fix="pass numbers, or sequences of numbers",
    )


def _dtype_of_part(part: Tensor | np.ndarray) -> DType:
    return part._dtype if isinstance(part, Tensor) else dtype_of_array(part)


_TEXTS = {str, bytes}


def _no_text(data: object, kinds: Iterable[type]) -> ArgumentError | ArgumentTypeError:
    """The error of text among numbers, or of nothing but text: PyTorch's classes differ."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    texts = sorted(kind.__name__ for kind in kinds if issubclass(kind, (str, bytes)))
    words = {"expected": "numbers", "got": texts[0], "fix": "convert text to numbers first"}
    if isinstance(data, str) or not data:
        return ArgumentError(f"too many dimensions '{texts[0]}'", **words)
    return ArgumentTypeError(f"new(): invalid data type '{texts[0]}'", **words)


def _dtype_of_type(kind: DType | type) -> DType:
    if isinstance(kind, DType):
        return kind
    if issubclass(kind, np.generic):
        found = dtypes.from_numpy(np.dtype(kind))
        if found is not None:
            return found
    elif issubclass(kind, bool):
        return dtypes.bool_
    elif issubclass(kind, int):
        return dtypes.int64
    elif issubclass(kind, float):
        return dtypes.get_default()
    elif issubclass(kind, complex):
        return dtypes.get_default().to_complex()
    if issubclass(kind, (str, bytes)):
        raise _no_text("", {kind})
    raise DTypeError(
        f"Could not infer dtype of {kind.__name__}",
        expected="numbers, sequences of numbers or arrays",
        got=kind.__name__,
        fix="convert it to numbers first",
    )


def infer(data: object) -> DType:
    """The dtype that PyTorch gives to a number or nested sequences of numbers."""
    kinds = _leaf_types(data) if isinstance(data, (list, tuple, range)) else {type(data)}
    if kinds & _TEXTS:
        raise _no_text(data, kinds)
    found = None
    for kind in kinds:
        dtype = _dtype_of_type(kind)
        found = dtype if found is None else dtypes.promote(found, dtype)
    return dtypes.get_default() if found is None else found


# -- nested sequences ----------------------------------------------------------------------------------------------


def _is_sequence(data: object) -> bool:
    return isinstance(data, (list, tuple, range)) or (
        isinstance(data, np.ndarray) and data.ndim > 0
    )


def _check_regular(data: Any) -> None:
    """Errors: ValueError or TypeError where nested sequences are ragged."""
    depth = 0
    level = [data]
    while level and _is_sequence(level[0]):
        size = len(level[0])
        for part in level:
            _check_part(part, size, depth)
        depth += 1
        level = [entry for part in level for entry in part]
    for entry in level:
        if _is_sequence(entry):
            raise ArgumentTypeError(
                f"'{type(entry).__name__}' object cannot be interpreted as a number",
                expected=f"a number at depth {depth}",
                got=f"a {type(entry).__name__}",
                fix="give all entries the same depth",
            )


def _check_part(part: Any, size: int, depth: int) -> None:
    if not _is_sequence(part):
        raise ArgumentTypeError(
            "not a sequence",
            expected=f"a sequence of length {size} at dim {depth}",
            got=f"{part!r}",
            fix="give all entries the same depth",
        )
    if len(part) != size:
        raise ArgumentError(
            f"expected sequence of length {size} at dim {depth} (got {len(part)})",
            expected="nested sequences of equal lengths",
            got=f"lengths {size} and {len(part)}",
            fix="pad the shorter ones, or make one tensor per sequence",
        )


def _plain(data: Tensor | list[Tensor], dtype: DType) -> Any:
    """Nested sequences with tensors replaced by their numbers, which are to be of a type. Errors: TypeError or, where
    that is a floating or complex one, ValueError on more than one number."""
    if isinstance(data, Tensor):
        if data.numel() != 1:
            whole = dtype.category < 2
            raise (ArgumentTypeError if whole else KindError)(
                "only integer tensors of a single element can be converted to an index"
                if whole
                else "only one element tensors can be converted to Python scalars",
                expected="tensors with one element inside lists",
                got=f"shape {list(data._shape)}",
                fix="use weft.stack(tensors)",
            )
        warn_of_gradient(data)
        return values_array(data).item()
    if isinstance(data, (list, tuple)):
        return [_plain(entry, dtype) for entry in data]
    return data


def _array_of(data: Any) -> Any:
    """Nested sequences in NumPy's own type for them. Errors: ValueError or TypeError where they are ragged."""
    try:
        return np.array(data) if len(data) else np.zeros(0)
    except ValueError:
        _check_regular(data)
        raise


def _nested(data: Any, dtype: DType) -> Any:
    """The array of nested sequences, in NumPy's own type for them."""
    if _holds_tensors(data):
        data = _plain(data, dtype)
    array = _array_of(data)
    if dtype is dtypes.uint64 and array.size and array.dtype.kind in "ifc":
        return _unsigned(data)
    if array.dtype.kind in "OUSV":
        _check_regular(data)
        infer(data)
        if dtype is dtypes.uint64:
            return _unsigned(data)
        if dtype.category < 2:
            raise _too_wide(dtype)
        return np.array(data, np.float64 if dtype.category == 2 else np.complex128)
    if array.dtype.kind == "c" and dtype.category in (1, 2):
        raise _not_real(data, dtype)
    if array.dtype.kind == "f" and dtype.category == 1 and infer(data).category < 2:
        raise _too_wide(dtype)  # NumPy takes integers of both ends of 64 bits for floats
    if dtype.category == 1 and array.size:
        if array.dtype.kind == "f" and not dtype.is_signed and array.min() < 0:
            return _wrapped(data, dtype)
        _check_array(array, dtype)
    return array


def _wrapped(data: object, dtype: DType) -> Any:
    """Integers mixed with floats as elements of an unsigned type: negative integers wrap, as they do alone. Errors:
    RuntimeError on floats below 0, and numbers beyond the type's range."""
    numbers = np.array(data, object)
    for number in numbers.reshape(-1):
        need_fit(number, dtype)
    modulus = 1 << 8 * dtype.itemsize
    wrapped = [int(number) % modulus for number in numbers.reshape(-1)]
    return np.array(wrapped, dtype.numpy).reshape(numbers.shape)


def _unsigned(data: object) -> Any:
    """The array of numbers for uint64, which alone of all integer types takes no negative numbers and no floats.
    Errors: OverflowError, TypeError."""
    numbers = np.array(data, object)
    for number in numbers.reshape(-1):
        if isinstance(number, (float, complex, np.inexact)):
            raise ArgumentTypeError(
                "an integer is required",
                expected="integers, as dtype is uint64",
                got=repr(number)[:40],
                fix="convert the numbers with int(), or the tensor with .to(weft.uint64)",
            )
        if number < 0:
            raise NumberRangeError(
                "can't convert negative int to unsigned",
                expected="integers from 0 on, as dtype is uint64",
                got=str(number)[:40],
                fix="make the tensor with dtype=weft.int64; .view(weft.uint64) shows its bits",
            )
        if number >= 1 << 64:
            raise _too_wide(dtypes.uint64)
    return numbers.astype(np.uint64)


def _holds_tensors(data: object) -> bool:
    whole, depth = data, 0
    while isinstance(data, (list, tuple)) and len(data):
        depth += 1
        if depth > MOST_DIMENSIONS:  # also a list that holds itself
            _leaf_types(whole)
        data = (
            data[0]
            if not isinstance(data[0], (int, float))
            else next((entry for entry in data if not isinstance(entry, (int, float))), None)
        )
    return isinstance(data, Tensor)


def _too_wide(dtype: DType) -> ArgumentError:
    whole = dtype is dtypes.uint64
    return NumberRangeError(
        "int too big to convert" if whole else "Overflow when unpacking long long",
        expected=f"numbers that {dtype.name} can hold",
        got=f"an integer outside {'uint64' if whole else 'int64'}",
        fix="pass floats, or dtype=weft.float64",
    )


def _not_real(value: object, dtype: DType) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"must be real number, not complex: {dtype.name} cannot hold {value!r:.60}",
        expected="real numbers",
        got=f"{value!r:.60}",
        fix="pass dtype=weft.complex64",
    )


def _check_fits(low: int, high: int, dtype: DType) -> None:
    """Errors: RuntimeError on integers outside the range of a type; unsigned types take negative ones as in PyTorch."""
    if high > 2**63 - 1 and dtype is not dtypes.uint64:
        raise _too_wide(dtype)
    need_fit(high, dtype, dtype.name)
    need_fit(low, dtype, dtype.name)


def _check_array(array: np.ndarray, dtype: DType) -> None:
    """Errors: RuntimeError on numbers outside the range of an integer type."""
    if array.dtype.kind in "iu":
        _check_fits(int(array.min()), int(array.max()), dtype)
    elif array.dtype.kind == "f":
        need_fit(float(array.min()), dtype, dtype.name)
        need_fit(float(array.max()), dtype, dtype.name)


@cache
def _range_of(dtype: DType) -> tuple[Any, Any]:
    """The least and the largest number of a type, without infinity."""
    info: Any = np.iinfo(dtype.numpy) if dtype.category == 1 else finfo(dtype)
    return info.min, info.max


HELD_BY_ALL = 100  # every dtype of numbers holds those from 0 to it


def need_fit(value: float, dtype: DType, shown: str = "") -> None:
    """Errors: RuntimeError on a real number that a type cannot hold, which is called `shown`, by default as in C++;
    unsigned types take negative integers."""
    if type(value) in (float, int) and 0 <= value <= HELD_BY_ALL:
        return
    if dtype.category not in (1, 2) or not isinstance(value, (int, float)):
        return
    least, high = _range_of(dtype)
    wraps = isinstance(value, int) and dtype.category == 1 and not dtype.is_signed
    if (-high if wraps else least) <= value <= high or (
        dtype.category == 2 and not math.isfinite(value)
    ):
        return
    wide = isinstance(value, int) and not -1 << 63 <= value < 1 << 64
    text = (
        f"value cannot be converted to type {shown or OVERFLOW_NAMES[dtype.name]} without overflow"
    )
    raise (NumberRangeError if wide else DTypeError)(
        "int too big to convert" if wide else text,
        expected=f"{least} to {high}",
        got=str(value)[:40],
        fix="choose a wider dtype, or a smaller number",
    )


def to_array(data: object, dtype: DType | None) -> tuple[Any, DType]:
    """Raw elements and dtype of what a user passed; the array may be the user's own memory."""
    if isinstance(data, np.ndarray):
        found = dtype_of_array(data)
        return (data, found) if dtype in (None, found) else (convert(data, dtype), dtype)
    if isinstance(data, (list, tuple, range)):
        wanted = infer(data) if dtype is None else dtype
        return convert(_nested(data, wanted), wanted), wanted
    if isinstance(data, (bool, int, float, complex, np.generic)):
        wanted = infer(data) if dtype is None else dtype
        return convert(_number(data, wanted), wanted), wanted
    return _other(data, dtype)


def _number(value: Any, dtype: DType) -> Any:
    array = np.array(value)
    if dtype is dtypes.uint64 and array.dtype.kind in "ifcO":
        return _unsigned(value)
    wide = array.dtype == np.uint64 and dtype is not dtypes.uint64
    if array.dtype.kind == "O" or wide:
        if dtype.category > 1:
            return np.array(float(value))
        raise _too_wide(dtype)
    if array.dtype.kind == "c" and dtype.category < 3:
        raise _not_real(value, dtype)
    if dtype.category == 1:
        _check_array(array, dtype)
    return array


def _is_indexed(data: object) -> TypeGuard[Sequence[object]]:
    """True for an object that has a length and items by number, and is of a class of the user's."""
    kind = type(data)
    return hasattr(kind, "__getitem__") and hasattr(kind, "__len__") and not hasattr(kind, "keys")


def _items_of(data: Sequence[object], depth: int = 1) -> list[Any]:
    """The items of such an object, and of those within it. Errors: ValueError where it does not give them."""
    if depth > MOST_DIMENSIONS:  # also an object that holds itself
        raise _too_deep()
    try:
        items = [data[place] for place in range(len(data))]
    except (TypeError, LookupError):
        raise ArgumentError(
            f"could not determine the shape of object type '{type(data).__name__}'",
            expected="an object whose items can be read by number, from 0 to its length",
            got=type(data).__name__,
            fix="convert it to a list first",
        ) from None
    return [
        _items_of(item, depth + 1)
        if _is_indexed(item) and not isinstance(item, (*_NESTED, str, bytes))
        else item
        for item in items
    ]


def _other(data: Any, dtype: DType | None) -> tuple[Any, DType]:
    """Anything else that knows how to be an array, a buffer or a sequence."""
    if isinstance(data, (str, bytes)):
        raise ArgumentTypeError(
            f"new(): invalid data type '{type(data).__name__}'",
            expected="numbers, sequences of numbers or arrays",
            got=repr(data),
            fix="convert text to numbers first",
        )
    if (
        not isinstance(data, type)
        and hasattr(data, "__array__")
        or hasattr(data, "__array_interface__")
    ):
        return to_array(np.asarray(data), dtype)
    if isinstance(data, (bytearray, memoryview)):
        return to_array(list(data), dtype)
    if isinstance(data, Sequence):
        return to_array(list(data), dtype)
    if _is_indexed(data):
        return to_array(_items_of(data), dtype)
    if hasattr(type(data), "__index__"):
        return to_array(operator.index(data), dtype)
    infer(data)
    raise AssertionError("infer refuses what is not a number")
