"""Matrix products of integers, which wrap, so that any order of their sums gives the same bits.

Vectors lie along the columns of C. A unit is `UNIT_ROWS` rows of one matrix of the batch; it walks the columns of C a
panel of two vectors at a time, and along K in blocks. A panel of B is read in place, or packed if its columns are not
contiguous or do not fill the vectors; every `TILE_ROWS` rows of A pass along it with their sums in registers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

from weft.engine.devices.cpu.elementary.expressions import SimdExpr
from weft.engine.devices.cpu.gemm.code import (
    Index,
    address,
    alternatives,
    buffer,
    ceiling,
    either,
    loop,
    minimum,
    number,
    quotient,
    remainder,
    when,
)
from weft.engine.devices.cpu.gemm.spec import UNIT_ROWS
from weft.engine.devices.cpu.llvm.builder import I64, POINTER, Builder, Value, counted, integer

WIDTHS = {"uint8": 8, "int8": 8, "int16": 16, "int32": 32, "int64": 64}
WIDTHS |= {"uint16": 16, "uint32": 32, "uint64": 64}
TILE_ROWS = 4
VECTORS = 2  # across a panel
MOST_LANES = 32  # of a vector: products of bytes are of 16 bits anyway
DEPTH = 256  # of a block along K


class Panel(NamedTuple):
    """Columns of B along a block of K: `depth` rows from `start` on, `columns` of them from `column` on."""

    batch: Index
    start: Index
    depth: Index
    column: Index
    columns: Index
    pointer: Value
    stride: Index  # between rows, in elements


class IntegerDriver:
    """Writes the kernel; units are blocks of rows of all matrices of the batch."""

    def __init__(self, module: ir.Module, name: str, dtype: str, register_bits: int) -> None:
        self.f = f = Builder(module, name)
        self.element = ir.IntType(WIDTHS[dtype])
        self.lanes = min(register_bits // WIDTHS[dtype], MOST_LANES)
        self.width = VECTORS * self.lanes
        self.vector = ir.VectorType(self.element, self.lanes)
        self.packed = buffer(f, self.element, DEPTH * self.width)
        self.sums = buffer(f, self.element, self.width)
        self.pointers = [
            f.load(address(f, f.arguments["pointers"], i, POINTER), typ=POINTER) for i in range(3)
        ]
        values = [
            SimdExpr(f, f.load(address(f, f.arguments["arguments"], i, I64), typ=I64))
            for i in range(13)
        ]
        self.m, self.n, self.k = values[1:4]
        self.strides = [values[i : i + 3] for i in (4, 7, 10)]

    def build(self) -> list[Builder]:
        f = self.f
        begin, end = (SimdExpr(f, f.arguments[name]) for name in ("begin", "end"))
        blocks = ceiling(self.m, UNIT_ROWS)
        some = (self.k < 1).where(number(f, 1), self.k)  # C is written also where K is empty
        with loop(f, end, start=begin) as unit:
            batch, first = quotient(unit, blocks), remainder(unit, blocks) * UNIT_ROWS
            last = minimum(first + UNIT_ROWS, self.m)
            with loop(f, self.n, step=self.width) as column, loop(f, some, step=DEPTH) as start:
                self.rows(first, last, self.panel(batch, start, column))
        f.ret_void()
        return [f]

    def place(self, operand: int, batch: Index, i: Index, j: Index) -> Value:
        strides = self.strides[operand]
        offset = strides[0] * batch + strides[1] * i + strides[2] * j
        return address(self.f, self.pointers[operand], offset, self.element)

    def fills(self, operand: int, count: Index) -> SimdExpr:
        """True (in the kernel) if `count` columns of an operand are whole contiguous vectors."""
        f = self.f
        near = f.icmp_signed("==", self.strides[operand][2].value, integer(1))
        return SimdExpr(f, f.and_(near, f.icmp_signed("==", count.value, integer(self.width))))

    def panel(self, batch: Index, start: Index, column: Index) -> Panel:
        f = self.f
        depth, count = minimum(self.k - start, DEPTH), minimum(self.n - column, self.width)
        lies = self.fills(1, count)
        with when(f, SimdExpr(f, f.not_(lies.value))), loop(f, count) as j, loop(f, depth) as i:
            read = f.load(self.place(1, batch, start + i, column + j), typ=self.element)
            f.store(read, address(f, self.packed, i * self.width + j, self.element))
        pointer = either(f, lies, self.place(1, batch, start, column), self.packed)
        stride = lies.where(self.strides[1][1], number(f, self.width))
        return Panel(batch, start, depth, column, count, pointer, stride)

    def rows(self, first: Index, last: Index, panel: Panel) -> None:
        """Rows [first, last) of A along a panel: as many tiles as fit, the others one by one."""
        whole = last - remainder(last - first, TILE_ROWS)
        with loop(self.f, whole, step=TILE_ROWS, start=first) as row:
            self.tile(TILE_ROWS, row, panel)
        with loop(self.f, last, start=whole) as row:
            self.tile(1, row, panel)

    def tile(self, rows: int, row: Index, panel: Panel) -> None:
        f = self.f
        starts = [self.place(0, panel.batch, row + r, panel.start) for r in range(rows)]

        def body(index: Value, sums: list[Value]) -> list[Any]:
            k = SimdExpr(f, index)
            line = [
                f.load(
                    address(f, panel.pointer, k * panel.stride + v * self.lanes, self.element),
                    typ=self.vector,
                )
                for v in range(VECTORS)
            ]
            factors = [
                f.broadcast(
                    f.load(address(f, a, k * self.strides[0][2], self.element), typ=self.element),
                    self.lanes,
                )
                for a in starts
            ]
            terms = [f.mul(part, factor) for factor in factors for part in line]
            return [f.add(total, term) for total, term in zip(sums, terms, strict=True)]

        zeros = [Value(self.vector, "zeroinitializer")] * (rows * VECTORS)
        sums = counted(f, integer(0), panel.depth.value, 1, zeros, body)
        for r in range(rows):
            self.put(sums[r * VECTORS : (r + 1) * VECTORS], row + r, panel)

    def put(self, sums: list[Value], row: Index, panel: Panel) -> None:
        """The first block of K writes a row of the panel of C, the others add to it."""
        f = self.f
        goes_on = f.sext(f.icmp_signed(">", panel.start.value, integer(0)), self.element)
        parts = [(v * self.lanes, total) for v, total in enumerate(sums)]
        with alternatives(f, self.fills(2, panel.columns)) as cases:
            next(cases)
            mask = f.broadcast(goes_on, self.lanes)
            for offset, total in parts:
                place = self.place(2, panel.batch, row, panel.column + offset)
                before = f.and_(f.load(place, typ=self.vector), mask)
                f.store(f.add(before, total), place)
            next(cases)
            for offset, total in parts:
                f.store(total, address(f, self.sums, offset, self.element))
            with loop(f, panel.columns) as j:
                place = self.place(2, panel.batch, row, panel.column + j)
                before = f.and_(f.load(place, typ=self.element), goes_on)
                read = f.load(address(f, self.sums, j, self.element), typ=self.element)
                f.store(f.add(before, read), place)
            next(cases, None)
