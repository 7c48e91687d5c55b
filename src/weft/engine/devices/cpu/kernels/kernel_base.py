"""The base of the kernel families other than loops: reading arguments, and pieces of contiguous rows.

A family's function takes the common signature; `Family` reads its pointers and arguments and divides a row into full
vectors and one partial one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

from llvmlite import ir as llvm

from weft.engine.devices.cpu.codegen.vector_memory import VectorMemory, decode, encode
from weft.engine.devices.cpu.elementwise.emitter import Emitter
from weft.engine.devices.cpu.llvm.builder import (
    I64,
    POINTER,
    Builder,
    Value,
    choose,
    counted,
    integer,
    module_text,
)
from weft.engine.devices.cpu.llvm.simd_value import SimdValue
from weft.engine.devices.cpu.llvm.target import Target, host
from weft.engine.kernels import loop_ir


class Family:
    """One function of a kernel family for one dtype."""

    def __init__(self, name: str, dtype: str, target: Target | None, lanes: int = 0) -> None:
        self.target = target or host()
        self.module = llvm.Module(name)
        self.builder = Builder(self.module, name)
        self.dtype = dtype
        self.size = loop_ir.SIZES[dtype]
        lanes = lanes or max(1, min(64, self.target.register_bits // 4 // self.size))
        self.e = Emitter(self.builder, lanes)
        self.memory = VectorMemory(self.e, self.target)
        self.begin = self.builder.arguments["begin"]
        self.end = self.builder.arguments["end"]

    def with_lanes(self, lanes: int) -> Family:
        """The same function, written with another number of lanes."""
        family = copy(self)
        family.e = Emitter(self.builder, lanes)
        family.memory = VectorMemory(family.e, self.target)
        return family

    def pointers(self, count: int) -> list[Value]:
        """The launch's pointers."""
        return [self._read("pointers", i, POINTER) for i in range(count)]

    def arguments(self, count: int) -> list[Value]:
        """The launch's arguments."""
        return [self._read("arguments", i, I64) for i in range(count)]

    def _read(self, table: str, index: int, type_: object) -> Value:
        b = self.builder
        return b.load(b.gep(b.arguments[table], [integer(8 * index)]), typ=type_)

    def at(self, pointer: Value, *offsets: tuple[Value, Value]) -> Value:
        """The address moved by index * stride elements, for each pair."""
        b = self.builder
        for index, stride in offsets:
            step = b.mul(b.mul(index, stride), integer(self.size))
            pointer = b.gep(pointer, [step])
        return pointer

    def pieces(
        self, start: Value, stop: Value, visit: Callable[[Value, Value | None], object]
    ) -> None:
        """`visit(index, count)` for each vector of [start, stop); count is None for a full one."""
        b, lanes = self.builder, integer(self.e.lanes)

        def piece(index: Value, carry: list[Value]) -> list[Value]:
            rest = b.sub(stop, index)

            def run(count: Value | None) -> list[Value]:
                visit(index, count)
                return []

            choose(b, b.icmp_signed(">=", rest, lanes), lambda: run(None), lambda: run(rest))
            return carry

        counted(b, start, stop, self.e.lanes, [], piece)

    def load(self, pointer: Value, count: Value | None) -> SimdValue:
        """The elements at an address, all lanes or the first `count`."""
        if count is None:
            raw = self.memory.load(pointer, self.dtype)
        else:
            raw = self.memory.load_partial(pointer, self.dtype, None, count)
        return decode(self.e, raw, self.dtype)

    def store(self, value: SimdValue, pointer: Value, count: Value | None) -> None:
        """Write all lanes or the first `count`."""
        raw = encode(self.e, value)
        if count is None:
            self.memory.store(raw, pointer)
        else:
            self.memory.store_partial(raw, pointer, None, count, self.dtype)

    def finish(self) -> str:
        """The text of the module."""
        self.builder.ret_void()
        return module_text(self.module, [self.builder], self.target.register_bits)


def each(
    b: Builder, start: Value, stop: Value, visit: Callable[[Value], Sequence[Value] | None]
) -> None:
    """`visit(index)` for each index of [start, stop)."""

    def body(index: Value, carry: list[Value]) -> list[Value]:
        visit(index)
        return carry

    counted(b, start, stop, 1, [], body)
