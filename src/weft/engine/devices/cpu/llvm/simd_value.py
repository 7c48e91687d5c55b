"""SIMD values, the operands of the emitter: a dtype's form in registers, and a value of it in every lane.

In registers a bool is i1, float16 and bfloat16 are float32 whose values are already rounded, a complex number is two
vectors.
"""

from __future__ import annotations

import struct

from llvmlite import ir

from weft.engine.devices.cpu.llvm.builder import I1, I8, I32, I64, Builder, Value

I16 = ir.IntType(16)
HALF = ir.HalfType()
FLOAT = ir.FloatType()
DOUBLE = ir.DoubleType()

ELEMENTS = {
    "bool": I1,
    "uint8": I8,
    "int8": I8,
    "int16": I16,
    "int32": I32,
    "int64": I64,
    "float16": FLOAT,
    "bfloat16": FLOAT,
    "float32": FLOAT,
    "float64": DOUBLE,
    "complex64": FLOAT,
    "complex128": DOUBLE,
    "uint16": I16,
    "uint32": I32,
    "uint64": I64,
}
HALVES = ("float16", "bfloat16")
FLOATS = ("float16", "bfloat16", "float32", "float64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*UNSIGNED, "int8", "int16", "int32", "int64")
COMPLEX = ("complex64", "complex128")
SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}
REAL = {"complex64": "float32", "complex128": "float64"}


class SimdValue:
    """One value of a dtype in every lane: one vector, or two (real, imaginary)."""

    __slots__ = ("dtype", "parts")

    def __init__(self, dtype: str, *parts: Value) -> None:
        self.dtype = dtype
        self.parts = parts

    @property
    def value(self) -> Value:
        """The only vector of a real value."""
        (value,) = self.parts
        return value


def joined(b: Builder, vectors: list[Value]) -> Value:
    """Vectors of equally many lanes, a power of two of them, side by side in one."""
    while len(vectors) > 1:
        lanes = range(2 * vectors[0].type.count)
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [b.shuffle(low, high, lanes) for low, high in pairs]
    return vectors[0]


def pieces(b: Builder, value: SimdValue, lanes: int) -> list[SimdValue]:
    """A value on more lanes as several on so many."""
    starts = range(0, value.parts[0].type.count, lanes)
    return [
        SimdValue(value.dtype, *[b.shuffle(v, v, range(at, at + lanes)) for v in value.parts])
        for at in starts
    ]


def same_dtype(a: SimdValue, b: SimdValue) -> None:
    """Errors: TypeError if the recorder left out a cast."""
    if a.dtype != b.dtype:
        raise TypeError(f"operands of one dtype expected, got {a.dtype} and {b.dtype}; cast first")


def literal(number: float | int | bool, element: ir.Type) -> str:
    """The text of a number as a constant of an element type."""
    if isinstance(element, ir.IntType):
        if element.width == 1:
            return "true" if number else "false"
        half = 1 << (element.width - 1)
        return str((int(number) + half) % (2 * half) - half)
    if element is FLOAT:
        number = _single(float(number))
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def _single(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
