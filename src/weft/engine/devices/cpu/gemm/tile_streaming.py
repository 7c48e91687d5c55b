"""The streaming tile: a few rows by a matrix with contiguous columns, which is read in long pieces of memory.

A register tile that walks all k of its columns reads a short piece of each line of B, which hardware prefetchers
predict badly. Here a few k at a time meet all columns: as many lines of B are read from one end to the other, the
chains are carried on in C, which a near cache holds, and the factors of the rows stay in registers.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from weft.engine.devices.cpu.gemm.code import Index, LocalFunction, address, fma, loop, when
from weft.engine.devices.cpu.gemm.spec import Spec
from weft.engine.devices.cpu.llvm.builder import I1, I64, POINTER, Value

PARAMETERS = (
    ("a", POINTER),
    ("b", POINTER),
    ("b_stride", I64),
    ("depth", I64),
    ("columns", I64),
    ("out", POINTER),
    ("out_stride", I64),
    ("carry", I1),
)
LINES = 4  # of B that are read together
VECTORS = 2  # of columns at once


class StreamFunction:
    """Writes the function: packed rows of A by `depth` lines of B, over a multiple of a panel's columns."""

    def __init__(self, module: ir.Module, name: str, spec: Spec) -> None:
        self.spec, self.element = spec, spec.number.compute
        self.f = LocalFunction(module, name, PARAMETERS)

    def build(self) -> LocalFunction:
        f = self.f
        with when(f, f.index("carry") ^ 1):
            self.clear()
        whole = f.index("depth") & -LINES
        with loop(f, whole, LINES) as k:
            self.lines(k, LINES)
        with loop(f, f.index("depth"), start=whole) as k:
            self.lines(k, 1)
        f.ret_void()
        return f

    def clear(self) -> None:
        f, zero = self.f, Value(self.spec.vector, "zeroinitializer")
        with loop(f, f.index("columns"), self.spec.lanes) as column:
            for row in range(self.spec.rows):
                f.store(zero, self.out(row, column), align=self.spec.size)

    def out(self, row: int, column: Index) -> Value:
        f = self.f
        return address(f, f.arguments["out"], f.index("out_stride") * row + column, self.element)

    def lines(self, k: Index, count: int) -> None:
        """`count` lines of B from `k` on: each column's chains go on by as many steps."""
        f, spec = self.f, self.spec
        factors = [[self.factor(row, k, line) for line in range(count)] for row in range(spec.rows)]
        starts = [
            address(f, f.arguments["b"], f.index("b_stride") * (k + line), self.element)
            for line in range(count)
        ]
        with loop(f, f.index("columns"), spec.lanes * VECTORS) as column:
            for vector in range(VECTORS):
                self.vector(factors, starts, column + vector * spec.lanes)

    def vector(self, factors: list[list[Value]], starts: list[Value], column: Index) -> None:
        f, spec = self.f, self.spec
        places = [self.out(row, column) for row in range(spec.rows)]
        sums: list[Any] = [f.load(place, typ=spec.vector, align=spec.size) for place in places]
        for line, start in enumerate(starts):
            place = address(f, start, column, self.element)
            b = f.load(place, typ=spec.vector, align=spec.size)
            sums = [
                fma(f, spec.vector, row[line], b, total)
                for row, total in zip(factors, sums, strict=True)
            ]
        for place, total in zip(places, sums, strict=True):
            f.store(total, place, align=spec.size)

    def factor(self, row: int, k: Index, line: int) -> Value:
        """An element of A in all lanes."""
        f = self.f
        place = address(f, f.arguments["a"], k + (row * self.spec.a_stride + line), self.element)
        return f.broadcast(f.load(place, typ=self.element), self.spec.lanes)
