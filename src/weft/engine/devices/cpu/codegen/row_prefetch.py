"""Asking for the row to come while a row kernel computes one.

A kernel that makes sums over rows takes the rows of a few lanes in turns (`reduce_columns_fused`), and then goes on
further away: its first phase waits for memory, which the processor could not guess and which has nothing
to do in the phases after it.  Before each phase of a row a part of the next row is asked for, so that
never more is under way than the processor keeps account of.  A row beyond the last one may be asked for,
which does nothing.  Kernels that take one row after the other are not helped: the processor guesses those.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.engine.devices.cpu.codegen.loop_nest import Key, LoopFrame, LoopScope
from weft.engine.devices.cpu.llvm.builder import SECOND_CACHE, Value, ask_for, counted, integer
from weft.engine.kernels import loop_ir

LINE = 6  # log2 of the bytes of a cache line


class RowPrefetch:
    """The operands that the phases of a kernel read of each row in memory: (frame, key, pointer, cache lines). An
    operand that several of them read counts once."""

    def __init__(self, frames: Sequence[LoopFrame], scopes: Sequence[LoopScope]) -> None:
        self.streams: list[tuple[LoopFrame, Key, Value, Value]] = []
        self.builder = b = frames[0].builder
        for frame, scope in zip(frames, scopes, strict=True):
            for number, operand in enumerate(frame.kernel.operands):
                key = ("operand", number)
                if not _is_row(operand):
                    continue
                row = b.mul(frame.dims[-1], integer(loop_ir.SIZES[operand.dtype]))
                lines = b.lshr(b.add(row, integer((1 << LINE) - 1)), integer(LINE))
                pointer = scope.pointers[key]
                for *_, earlier, _ in self.streams:
                    known = b.icmp_unsigned("==", earlier, pointer)
                    lines = b.select(known, integer(0), lines)
                self.streams.append((frame, key, pointer, lines))

    def ask(self, indexes: Sequence[Value], part: int, parts: int) -> None:
        """Ask for one of some parts of the row with these indexes on the parallel axes."""
        b = self.builder
        for frame, key, pointer, lines in self.streams:
            for axis, index in enumerate(indexes):
                if (key, axis) in frame.strides:
                    pointer = b.gep(pointer, [b.mul(index, frame.strides[key, axis])])
            first, last = (
                b.udiv(b.mul(lines, integer(n)), integer(parts)) for n in (part, part + 1)
            )
            self._ask(pointer, first, last)

    def _ask(self, pointer: Value, first: Value, last: Value) -> None:
        b = self.builder

        def line(number: Value, carry: list[Value]) -> list[Value]:
            ask_for(b, b.gep(pointer, [b.shl(number, integer(LINE))]), SECOND_CACHE)
            return carry

        counted(b, first, last, 1, [], line)


def _is_row(operand: loop_ir.Operand) -> bool:
    """True if an operand is in memory, with another row without gaps for each index."""
    strides = operand.strides
    plain = not operand.virtual and operand.local < 0 and operand.index == 0
    return plain and strides[-1] == "1" and any(stride != "0" for stride in strides[:-1])
