"""Elementwise kernels that read some operand across its rows: tiles are transposed in registers.

An operand that is contiguous along the last axis but one and strided along the last would be read one element per
cache line. Instead a tile of 16 x 16 elements is read along its contiguous axis, transposed by exchanging blocks of 8,
4, 2 and 1, and kept on the stack, where windows of the last axis find it contiguous. While a tile is read, the one at
the next index of the axis before is prefetched: its rows are on as many pages, which the hardware does not predict.
Everything else is as in an elementwise kernel.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir as llvm

from weft.engine.devices.cpu.codegen.evaluator import Stage
from weft.engine.devices.cpu.codegen.loop_nest import LoopFrame, LoopScope
from weft.engine.devices.cpu.codegen.schedule import Scheduled
from weft.engine.devices.cpu.codegen.vector_memory import masked_load
from weft.engine.devices.cpu.llvm.builder import (
    FIRST_CACHE,
    I1,
    I8,
    Value,
    ask_for,
    choose,
    counted,
    integer,
    minimum,
)
from weft.engine.devices.cpu.llvm.target import Target
from weft.engine.kernels import loop_ir

SIDE = 16


def transposed_operands(kernel: Scheduled, target: Target) -> list[int]:
    """The operands that are read in tiles."""
    loaded = {instr.operand for instr in kernel.body if instr.op == "load"}
    return [
        number
        for number, operand in enumerate(kernel.operands)
        if operand.strides[-2:] == ("1", "s")
        and number in loaded
        and loop_ir.SIZES[operand.dtype] in target.masked
    ]


class Tiles:
    """The two innermost loops of such a kernel."""

    def __init__(self, frame: LoopFrame, stage: Stage, operands: list[int]) -> None:
        self.frame = frame
        self.stage = stage
        self.builder = frame.builder
        self.operands = operands
        self.rows, self.columns = frame.kernel.rank - 2, frame.kernel.rank - 1
        self.stack = {
            number: self.builder.alloca(f"[{SIDE * SIDE * self._size(number)} x i8]")
            for number in operands
        }
        for number in operands:
            stage.contiguous.add(number)

    def _size(self, number: int) -> int:
        return loop_ir.SIZES[self.frame.kernel.operands[number].dtype]

    def loops(self, scope: LoopScope) -> None:
        """All tiles of the last two axes."""
        b, frame = self.builder, self.frame
        first, last = integer(0), frame.dims[self.rows]
        if self.rows == 0:
            first, last = frame.begin, frame.end
        columns = frame.dims[self.columns]

        def strip(column: Value, carry: list[Value]) -> list[Value]:
            end = minimum(b, columns, b.add(column, integer(SIDE)))

            def tile(row: Value, carry: list[Value]) -> list[Value]:
                stop = minimum(b, last, b.add(row, integer(SIDE)))
                for number in self.operands:
                    self._fill(scope, number, row, stop, column, end)
                self._evaluate(scope, row, stop, column, end)
                return carry

            return counted(b, first, last, SIDE, carry, tile)

        counted(b, integer(0), columns, SIDE, [], strip)

    def _fill(
        self, scope: LoopScope, number: int, row: Value, stop: Value, column: Value, end: Value
    ) -> None:
        """Read a tile along its rows' axis, write it to the stack along the columns'."""
        b, size, key = self.builder, self._size(number), ("operand", number)
        stride = self.frame.strides[key, self.columns]
        element = llvm.IntType(8 * size)
        start = b.gep(scope.pointers[key], [b.mul(row, integer(size))])
        mask = self._inside(b.sub(stop, row))
        final = b.sub(end, integer(1))
        vectors = []
        further = self.frame.strides.get((key, self.rows - 1))
        for lane in range(SIDE):
            # Columns beyond the last read it again, which is safe and never used.
            index = minimum(b, final, b.add(column, integer(lane)))
            pointer = b.gep(start, [b.mul(index, stride)])
            vectors.append(masked_load(b, llvm.VectorType(element, SIDE), pointer, mask))
            if further is not None:
                ask_for(b, b.gep(pointer, [further]), FIRST_CACHE)
        for line, vector in enumerate(self._transposed(vectors)):
            b.store(vector, b.gep(self.stack[number], [integer(line * SIDE * size)]))

    def _inside(self, count: Value) -> Value:
        b = self.builder
        lanes = Value(llvm.VectorType(I8, SIDE), f"<{', '.join(f'i8 {i}' for i in range(SIDE))}>")
        mask = b.icmp_unsigned("<", lanes, b.broadcast(b.trunc(count, I8), SIDE))
        assert mask.type == llvm.VectorType(I1, SIDE)
        return mask

    def _transposed(self, vectors: list[Value]) -> list[Value]:
        b, rows, distance = self.builder, list(vectors), SIDE // 2
        while distance:
            low = [i if not i & distance else SIDE + i - distance for i in range(SIDE)]
            high = [i + distance if not i & distance else SIDE + i for i in range(SIDE)]
            for i in range(SIDE):
                if not i & distance:
                    one, other = rows[i], rows[i + distance]
                    rows[i] = b.shuffle(one, other, low)
                    rows[i + distance] = b.shuffle(one, other, high)
            distance //= 2
        return rows

    def _evaluate(
        self, scope: LoopScope, row: Value, stop: Value, column: Value, end: Value
    ) -> None:
        """Line by line; where the columns fill the tile, without asking how many there are."""
        b = self.builder

        def lines(inside: Callable[[LoopScope], object]) -> list[Value]:
            def line(index: Value, carry: list[Value]) -> list[Value]:
                inside(self._entered(scope, row, column, index))
                return carry

            return counted(b, row, stop, 1, [], line)

        choose(
            b,
            b.icmp_signed(">=", b.sub(end, column), integer(SIDE)),
            lambda: lines(lambda here: self.stage.whole_windows(here, column, SIDE)),
            lambda: lines(lambda here: self.stage.windows(here, column, end, [])),
        )

    def _entered(self, scope: LoopScope, row: Value, column: Value, index: Value) -> LoopScope:
        """The scope at one line of a tile, whose operands are on the stack."""
        b = self.builder
        here = self.frame.enter(scope, self.rows, index)
        self.stage.entered(here, self.rows)
        for number in self.operands:
            offset = b.sub(b.mul(b.sub(index, row), integer(SIDE)), column)
            pointer = b.gep(self.stack[number], [b.mul(offset, integer(self._size(number)))])
            here.pointers["operand", number] = pointer
        return here
