"""Vectors in memory: whole, partial, strided; and their form there.

A *raw* vector is the form in memory: a bool is a byte 0 or 1, a half its 16 bits, a complex vector has twice the
lanes, real and imaginary interleaved. `decode` and `encode` lead to and from `SimdValue`. A partial access touches the
lanes [low, high) only: under a mask where the target has one for the element size, else lane by lane through a buffer
on the stack.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from weft.engine.devices.cpu.elementwise.casts import from_bits, to_bits
from weft.engine.devices.cpu.elementwise.emitter import Emitter
from weft.engine.devices.cpu.llvm.builder import (
    I1,
    I8,
    I32,
    I64,
    Builder,
    Value,
    choose,
    counted,
    integer,
    splat,
)
from weft.engine.devices.cpu.llvm.simd_value import COMPLEX, ELEMENTS, HALVES, I16, SimdValue
from weft.engine.devices.cpu.llvm.target import Target
from weft.engine.kernels.loop_ir import SIZES


def memory_element(dtype: str) -> Any:
    """The element type in memory; complex values have two of them."""
    if dtype == "bool":
        return I8
    return I16 if dtype in HALVES else ELEMENTS[dtype]


def decode(e: Emitter, raw: Value, dtype: str) -> SimdValue:
    """A raw vector as lanes of its dtype."""
    b = e.builder
    if dtype in COMPLEX:
        halves = (range(start, 2 * e.lanes, 2) for start in (0, 1))
        return SimdValue(dtype, *(b.shuffle(raw, raw, list(half)) for half in halves))
    if dtype == "bool":
        return SimdValue(dtype, b.icmp_unsigned("!=", raw, Value(raw.type, "zeroinitializer")))
    return SimdValue(dtype, from_bits(e, dtype, raw) if dtype in HALVES else raw)


def encode(e: Emitter, v: SimdValue) -> Value:
    """Lanes as the raw vector that memory holds."""
    b = e.builder
    if v.dtype in COMPLEX:
        pairs = [lane for i in range(e.lanes) for lane in (i, i + e.lanes)]
        return b.shuffle(v.parts[0], v.parts[1], pairs)
    if v.dtype == "bool":
        return b.zext(v.value, e.vector(I8))
    return to_bits(e, v.dtype, v.value) if v.dtype in HALVES else v.value


def masked_load(b: Builder, type_: ir.Type, pointer: Value, mask: Value) -> Value:
    """The lanes of a mask, zero in the others."""
    name = f"llvm.masked.load.{_suffix(type_)}.p0"
    return b.intrinsic(name, type_, [pointer, mask, Value(type_, "zeroinitializer")])


class VectorMemory:
    """Raw loads and stores of `e.lanes` elements."""

    def __init__(self, e: Emitter, target: Target) -> None:
        self.e = e
        self.builder = e.builder
        self.target = target

    def raw_type(self, dtype: str) -> Any:
        """The type of a raw vector."""
        return ir.VectorType(memory_element(dtype), self.e.lanes * _parts(dtype))

    def load(self, pointer: Value, dtype: str) -> Value:
        """All lanes, contiguous."""
        return self.builder.load(pointer, typ=self.raw_type(dtype))

    def store(self, raw: Value, pointer: Value) -> None:
        """All lanes, contiguous."""
        self.builder.store(raw, pointer)

    def mask(self, low: Value | None, high: Value, parts: int = 1) -> Value:
        """The lanes [low, high), each `parts` times; low may be missing for 0."""
        b, count = self.builder, self.e.lanes * parts
        type_ = ir.VectorType(I8, count)
        lanes: Value = Value(type_, f"<{', '.join(f'i8 {i // parts}' for i in range(count))}>")
        last = b.trunc(high, I8)
        if low is not None:
            first = b.trunc(low, I8)
            lanes = b.sub(lanes, b.broadcast(first, count))
            last = b.sub(last, first)
        return b.icmp_unsigned("<", lanes, b.broadcast(last, count))

    def _masked(self, dtype: str) -> bool:
        return SIZES[dtype] // _parts(dtype) in self.target.masked

    def load_partial(self, pointer: Value, dtype: str, low: Value | None, high: Value) -> Value:
        """The lanes [low, high), zero in the others."""
        type_ = self.raw_type(dtype)
        if self._masked(dtype):
            mask = self.mask(low, high, _parts(dtype))
            return masked_load(self.builder, type_, pointer, mask)
        buffer = self.builder.alloca(type_)
        self.builder.store(Value(type_, "zeroinitializer"), buffer)
        self._copy(dtype, (pointer, None), (buffer, None), low, high)
        return self.builder.load(buffer, typ=type_)

    def collect(self, pointer: Value, stride: Value, count: Value, dtype: str) -> Value:
        """The first `count` lanes, read in order `stride` bytes apart, zero in the others."""
        type_ = self.raw_type(dtype)
        buffer = self.builder.alloca(type_)
        self.builder.store(Value(type_, "zeroinitializer"), buffer)
        self._copy(dtype, (pointer, stride), (buffer, None), None, count)
        return self.builder.load(buffer, typ=type_)

    def store_partial(
        self, raw: Value, pointer: Value, low: Value | None, high: Value, dtype: str
    ) -> None:
        """The lanes [low, high) only."""
        if not self._masked(dtype):
            self.scatter(raw, pointer, None, low, high, dtype)
            return
        self._store_masked(raw, pointer, self.mask(low, high, _parts(dtype)))

    def scatter(
        self,
        raw: Value,
        pointer: Value,
        stride: Value | None,
        low: Value | None,
        high: Value,
        dtype: str,
    ) -> None:
        """The lanes [low, high), in order, `stride` bytes apart."""
        buffer = self.builder.alloca(raw.type)
        self.builder.store(raw, buffer)
        self._copy(dtype, (buffer, None), (pointer, stride), low, high)

    def _copy(
        self,
        dtype: str,
        source: tuple[Value, Value | None],
        target: tuple[Value, Value | None],
        low: Value | None,
        high: Value,
    ) -> None:
        b, size = self.builder, integer(SIZES[dtype])
        type_ = ir.VectorType(I8, SIZES[dtype]) if dtype == "complex128" else _WORDS[SIZES[dtype]]

        def one(lane: Value, carry: list[Value]) -> list[Value]:
            first, second = (
                b.gep(pointer, [b.mul(lane, size if stride is None else stride)])
                for pointer, stride in (source, target)
            )
            b.store(b.load(first, typ=type_, align=1), second, align=1)
            return carry

        counted(b, integer(0) if low is None else low, high, 1, [], one)

    def lane_numbers(self) -> Value:
        """0, 1, 2, ... as i64."""
        numbers = ", ".join(f"i64 {i}" for i in range(self.e.lanes))
        return Value(self.e.vector(I64), f"<{numbers}>")

    def clamped_lanes(self, low: Value | None, high: Value) -> Value:
        """The lane numbers, those outside [low, high) replaced by the nearest inside."""
        b, lanes = self.builder, self.lane_numbers()
        last = b.broadcast(b.sub(high, integer(1)), self.e.lanes)
        lanes = b.select(b.icmp_signed("<", lanes, last), lanes, last)
        if low is None:
            return lanes
        first = b.broadcast(low, self.e.lanes)
        return b.select(b.icmp_signed(">", lanes, first), lanes, first)

    def load_strided(self, pointer: Value, stride: Value, lanes: Value, dtype: str) -> Value:
        """One element per lane number, `stride` bytes apart."""
        b = self.builder
        steps = b.mul(lanes, b.broadcast(stride, self.e.lanes))
        return self.gather(b.gep(pointer, [steps]), dtype)

    def load_spread(self, pointer: Value, stride: Value, dtype: str) -> Value:
        """All lanes, `stride` bytes apart; contiguous elements in backward order are read as one vector and
        reversed."""
        b, last = self.builder, self.e.lanes - 1

        def backward() -> list[Value]:
            start = b.gep(pointer, [integer(-last * SIZES[dtype])])
            raw = self.load(start, dtype)
            return [b.shuffle(raw, raw, list(range(last, -1, -1)))]

        def apart() -> list[Value]:
            return [self.load_apart(pointer, stride, None, integer(self.e.lanes), dtype)]

        if dtype in COMPLEX:
            return apart()[0]
        return choose(b, self._is(stride, -1, dtype), backward, apart)[0]

    def load_apart(
        self, pointer: Value, stride: Value, low: Value | None, high: Value, dtype: str
    ) -> Value:
        """The lanes [low, high), `stride` bytes apart; others may be read as well, from where one of them is. Every
        second element is read with its neighbours' lanes masked."""
        b, lanes = self.builder, self.e.lanes

        def every_second() -> list[Value]:
            near, far = (
                masked_load(b, self.raw_type(dtype), b.gep(pointer, [integer(offset)]), mask)
                for offset, mask in self._every_second(dtype, low, high)
            )
            return [b.shuffle(near, far, list(range(0, 2 * lanes, 2)))]

        def apart() -> list[Value]:
            numbers = self.clamped_lanes(low, high)
            return [self.load_strided(pointer, stride, numbers, dtype)]

        if dtype in COMPLEX or not self._masked(dtype):
            return apart()[0]
        return choose(b, self._is(stride, 2, dtype), every_second, apart)[0]

    def store_apart(
        self,
        raw: Value,
        pointer: Value,
        stride: Value,
        low: Value | None,
        high: Value,
        dtype: str,
    ) -> None:
        """The lanes [low, high), `stride` bytes apart; every second element under masks."""
        b, lanes = self.builder, self.e.lanes

        def every_second() -> list[Value]:
            for half, (offset, mask) in enumerate(self._every_second(dtype, low, high)):
                part = b.shuffle(raw, raw, [(half * lanes + i) // 2 for i in range(lanes)])
                self._store_masked(part, b.gep(pointer, [integer(offset)]), mask)
            return []

        def apart() -> list[Value]:
            self.scatter(raw, pointer, stride, low, high, dtype)
            return []

        if dtype in COMPLEX or not self._masked(dtype):
            apart()
        else:
            choose(b, self._is(stride, 2, dtype), every_second, apart)

    def _every_second(self, dtype: str, low: Value | None, high: Value) -> list[tuple[int, Value]]:
        """For both vectors over which lanes spread: its offset in bytes, and which of its lanes are in [low, high)."""
        b, lanes = self.builder, self.e.lanes
        inside = self.mask(low, high)
        bits = ", ".join(f"i1 {1 - i % 2}" for i in range(lanes))
        even = Value(ir.VectorType(I1, lanes), f"<{bits}>")
        spread = [
            b.shuffle(inside, inside, [(half * lanes + i) // 2 for i in range(lanes)])
            for half in range(2)
        ]
        size = lanes * SIZES[dtype]
        return [(half * size, b.and_(mask, even)) for half, mask in enumerate(spread)]

    def _is(self, stride: Value, step: int, dtype: str) -> Value:
        """True (in the kernel) if elements are `step` apart."""
        return self.builder.icmp_signed("==", stride, integer(step * SIZES[dtype]))

    def _store_masked(self, raw: Value, pointer: Value, mask: Value) -> None:
        name = f"llvm.masked.store.{_suffix(raw.type)}.p0"
        self.builder.intrinsic(name, ir.VoidType(), [raw, pointer, mask])

    def gather(self, addresses: Value, dtype: str) -> Value:
        """The element at each address, as a raw vector; every lane is read."""
        b, n = self.builder, self.e.lanes
        element = memory_element(dtype)
        type_ = ir.VectorType(element, n)
        every = splat(Value(ir.IntType(1), "true"), n)
        name = f"llvm.masked.gather.{_suffix(type_)}.v{n}p0"

        def read(where: Value) -> Value:
            return b.intrinsic(name, type_, [where, every, Value(type_, "zeroinitializer")])

        if dtype not in COMPLEX:
            return read(addresses)
        size = integer(SIZES[dtype] // 2)
        imaginary = read(b.gep(addresses, [b.broadcast(size, n)]))
        return b.shuffle(read(addresses), imaginary, [x for i in range(n) for x in (i, i + n)])

    def load_one(self, pointer: Value, dtype: str) -> Value:
        """One element, repeated in every lane, as a raw vector."""
        b, n = self.builder, self.e.lanes
        element = memory_element(dtype)
        if dtype not in COMPLEX:
            return b.broadcast(b.load(pointer, typ=element), n)
        pair = b.load(pointer, typ=ir.VectorType(element, 2))
        return b.shuffle(pair, pair, [0, 1] * n)


_WORDS = {1: I8, 2: I16, 4: I32, 8: I64}


def _parts(dtype: str) -> int:
    return 2 if dtype in COMPLEX else 1


def _suffix(type_: ir.Type) -> str:
    names = {"float": "f32", "double": "f64"}
    return f"v{type_.count}{names.get(str(type_.element)) or str(type_.element)}"
