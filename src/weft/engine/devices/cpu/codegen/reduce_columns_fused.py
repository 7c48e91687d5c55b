"""Fused column sums: a row kernel adds up its rows while it computes them.

Element i of a reduction belongs to lane i mod 16 of its block, and lanes are folded by halves (`reduce_ops`): so one
unit of work may add up the rows of one lane, and others those of other lanes. A call takes the rows unit, unit + 16,
... and adds them up in a row of local memory, which starts at zero and goes to scratch; a second function folds the
sixteen rows there. The order of every sum is that of `reduce_columns`, which reads the rows from memory. Rows of one
block only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.engine.devices.cpu.codegen.vector_memory import VectorMemory
from weft.engine.devices.cpu.elementwise.emitter import Emitter
from weft.engine.devices.cpu.llvm.builder import (
    I64,
    POINTER,
    Builder,
    Value,
    counted,
    integer,
    minimum,
)
from weft.engine.devices.cpu.llvm.simd_value import SimdValue
from weft.engine.devices.cpu.llvm.target import Target
from weft.engine.kernels import loop_ir, reduction_order


class ColumnSums:
    """The sums of one row kernel, in one of its two functions: `dtypes` of the sums, which of the launch's pointers
    are scratch and results (from `first` on), which of its arguments is the row's length, bytes between rows in local
    memory."""

    def __init__(
        self,
        b: Builder,
        target: Target,
        dtypes: Sequence[str],
        first: int,
        length: int,
        gap: int = 0,
    ) -> None:
        self.builder = b
        self.target = target
        self.gap = gap
        self.dtypes = tuple(dtypes)
        self.first = first
        place = b.gep(b.arguments["arguments"], [integer(8 * length)])
        self.length = b.load(place, typ=I64)
        self.pitch = b.and_(
            b.add(self.length, integer(reduction_order.LANES - 1)), integer(-reduction_order.LANES)
        )
        self.pointers = [self._pointer(number) for number in range(len(self.dtypes) + 1)]

    def _pointer(self, number: int) -> Value:
        b = self.builder
        place = b.gep(b.arguments["pointers"], [integer(8 * (self.first + number))])
        return b.load(place, typ=POINTER)

    def _along(self, dtype: str, visit: Callable[[Emitter, VectorMemory, Value], None]) -> None:
        """`visit(emitter, memory, byte offset)` for each vector of a row, the last one filled up."""
        b, size = self.builder, loop_ir.SIZES[dtype]
        e = Emitter(b, reduction_order.LANES)
        memory = VectorMemory(e, self.target)

        def body(column: Value, carry: list[Value]) -> list[Value]:
            visit(e, memory, b.mul(column, integer(size)))
            return carry

        counted(b, integer(0), self.pitch, reduction_order.LANES, [], body)

    def row(self, number: int, memory: Value, lane: Value) -> Value:
        """The row of one of several lanes in local memory."""
        size = loop_ir.SIZES[self.dtypes[number]]
        b = self.builder
        pitch = b.add(b.mul(self.pitch, integer(size)), integer(self.gap))
        return b.gep(memory, [b.mul(lane, pitch)])

    def clear(self, memory: Iterable[Value], lanes: Value) -> None:
        """Zeros in the rows of local memory that are added to."""

        def zero(number: int, dtype: str, place: Value, lane: Value) -> None:
            target = self.row(number, place, lane)

            def write(e: Emitter, memory: VectorMemory, offset: Value) -> None:
                memory.store(e.constant(0, dtype).value, self.builder.gep(target, [offset]))

            self._along(dtype, write)

        self._each(memory, lanes, zero)

    def keep(self, memory: Iterable[Value], first: Value, lanes: Value) -> None:
        """The sums of the rows of some units, from `first` on, to scratch."""
        b = self.builder

        def copy(number: int, dtype: str, place: Value, lane: Value) -> None:
            source = self.row(number, place, lane)
            target = self._scratch(number, b.add(first, lane))

            def move(e: Emitter, memory: VectorMemory, offset: Value) -> None:
                memory.store(memory.load(b.gep(source, [offset]), dtype), b.gep(target, [offset]))

            self._along(dtype, move)

        self._each(memory, lanes, copy)

    def _each(
        self, memory: Iterable[Value], lanes: Value, visit: Callable[[int, str, Value, Value], None]
    ) -> None:
        """`visit(number, dtype, memory, lane)` for each lane of each sum."""
        for number, (dtype, place) in enumerate(zip(self.dtypes, memory, strict=True)):

            def body(
                lane: Value,
                carry: list[Value],
                number: int = number,
                dtype: str = dtype,
                place: Value = place,
            ) -> list[Value]:
                visit(number, dtype, place, lane)
                return carry

            counted(self.builder, integer(0), lanes, 1, [], body)

    def _scratch(self, number: int, lane: Value) -> Value:
        """The address in scratch of the row of one lane of a sum."""
        b = self.builder
        before = sum(loop_ir.SIZES[dtype] for dtype in self.dtypes[:number]) * reduction_order.LANES
        row = b.mul(lane, integer(loop_ir.SIZES[self.dtypes[number]]))
        return b.gep(self.pointers[0], [b.mul(self.pitch, b.add(row, integer(before)))])

    def fold(self, begin: Value, end: Value) -> None:
        """The results of the columns [begin, end) from scratch."""
        b = self.builder
        for number, dtype in enumerate(self.dtypes):

            def columns(
                column: Value, carry: list[Value], number: int = number, dtype: str = dtype
            ) -> list[Value]:
                self._columns(number, dtype, column, end)
                return carry

            counted(b, begin, end, reduction_order.LANES, [], columns)

    def _columns(self, number: int, dtype: str, column: Value, end: Value) -> None:
        """A vector of results: lanes folded by halves, as `KernelReductions.fold` does."""
        b = self.builder
        e = Emitter(b, reduction_order.LANES)
        memory = VectorMemory(e, self.target)
        high = minimum(b, b.sub(end, column), integer(reduction_order.LANES))
        place = b.mul(column, integer(loop_ir.SIZES[dtype]))

        def row(lane: int) -> Any:
            pointer = b.gep(self._scratch(number, integer(lane)), [place])
            return memory.load_partial(pointer, dtype, None, high)

        rows = [row(lane) for lane in range(reduction_order.LANES)]
        while len(rows) > 1:
            half = len(rows) // 2
            pairs = zip(rows[:half], rows[half:], strict=True)
            rows = [e.add(SimdValue(dtype, x), SimdValue(dtype, y)).value for x, y in pairs]
        target = b.gep(self.pointers[1 + number], [place])
        memory.store_partial(rows[0], target, None, high, dtype)
