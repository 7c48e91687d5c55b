"""Python numbers as the bytes of an element, for rare conversions that use Python's own packing."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.engine.ir.dtype import DType

_FORMATS = {
    "bool": "?",
    "uint8": "B",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
}


def scalar_bytes(value: Any, dtype: DType) -> bytes:
    """The memory of a number of a type, by the conversion that casts use."""
    name = dtype.name
    if dtype.is_complex:
        half = "f" if name == "complex64" else "d"
        number = complex(value)
        return struct.pack(half + half, _single(number.real, half), _single(number.imag, half))
    if name == "bfloat16":
        bits = struct.unpack("I", struct.pack("f", _single(float(value), "f")))[0]
        if bits & 0x7FFFFFFF > 0x7F800000:
            return struct.pack("H", 0x7FC0)
        return struct.pack("H", ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) & 0xFFFF)
    if name == "bool":
        return struct.pack("?", bool(value))
    if dtype.is_floating_point:
        return struct.pack(_FORMATS[name], _single(float(value), _FORMATS[name]))
    bits = dtype.itemsize * 8
    whole = int(value) & ((1 << bits) - 1)
    return whole.to_bytes(dtype.itemsize, "little")


def _single(value: float, form: str) -> float:
    """A double that `struct` can pack: what overflows the narrower type is infinite there."""
    limit = {"f": 3.4028235677973366e38, "e": 65520.0}.get(form)
    if limit is not None and abs(value) >= limit and value == value:
        return float("inf") if value > 0 else float("-inf")
    return value
