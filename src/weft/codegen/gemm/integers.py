"""Matrix products of integers, which wrap: one row of C for a unit, three plain loops."""

from __future__ import annotations

from llvmlite import ir

from ..elementary.lanes import Lanes
from ..text import I64, POINTER, Builder
from .code import Index, address, loop, quotient, remainder

WIDTHS = {"uint8": 8, "int8": 8, "int16": 16, "int32": 32, "int64": 64}
WIDTHS |= {"uint16": 16, "uint32": 32, "uint64": 64}


class IntegerDriver:
    """Writes the kernel; units are the rows of all matrices of the batch."""

    def __init__(self, module: ir.Module, name: str, dtype: str) -> None:
        self.f = Builder(module, name)
        self.element = ir.IntType(WIDTHS[dtype])
        f = self.f
        self.pointers = [
            f.load(address(f, f.arguments["pointers"], i, POINTER), typ=POINTER) for i in range(3)
        ]
        values = [
            Lanes(f, f.load(address(f, f.arguments["arguments"], i, I64), typ=I64))
            for i in range(13)
        ]
        self.m, self.n, self.k = values[1:4]
        self.strides = [values[i : i + 3] for i in (4, 7, 10)]

    def build(self) -> list[Builder]:
        f = self.f
        begin, end = (Lanes(f, f.arguments[name]) for name in ("begin", "end"))
        with loop(f, end, start=begin) as unit:
            batch, row = quotient(unit, self.m), remainder(unit, self.m)
            with loop(f, self.n) as column:
                self.element_of_c(batch, row, column)
        f.ret_void()
        return [f]

    def place(self, operand: int, batch: Index, i: Index, j: Index) -> ir.Value:
        strides = self.strides[operand]
        offset = strides[0] * batch + strides[1] * i + strides[2] * j
        return address(self.f, self.pointers[operand], offset, self.element)

    def element_of_c(self, batch: Index, row: Index, column: Index) -> None:
        f, place = self.f, self.place(2, batch, row, column)
        f.store(Lanes(f, ir.Constant(self.element, 0)).value, place)
        with loop(f, self.k) as k:
            a = f.load(self.place(0, batch, row, k), typ=self.element)
            b = f.load(self.place(1, batch, k, column), typ=self.element)
            total = f.load(place, typ=self.element)
            f.store(f.add(total, f.mul(a, b)), place)
