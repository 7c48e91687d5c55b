"""Cumulative extrema (argmax, argmin) of rows: for each element the last position up to it of the extremum so far.

Pointers: the elements, the positions (int64, rows of as many). Arguments: rows, length, the (row, element) strides of
the elements, all ones for minima or else 0. nan is the extremum from where it occurs.
"""

from __future__ import annotations

from weft.engine.devices.cpu.kernels.kernel_base import Family, each
from weft.engine.devices.cpu.kernels.sort_keys import Keys
from weft.engine.devices.cpu.limits import LANES
from weft.engine.devices.cpu.llvm.builder import I64, Value, counted, integer
from weft.engine.devices.cpu.llvm.builder import minimum as smaller
from weft.engine.devices.cpu.llvm.target import Target

ELEMENTS_PER_GRAIN = 4096


def lower_running(dtype: str, wide: bool, name: str, target: Target | None = None) -> str:
    """The LLVM module of the places for one dtype."""
    family = Family(name, dtype, target, LANES)
    running = _Running(family, wide)
    each(family.builder, family.begin, family.end, running.row)
    return family.finish()


def launch_running(rows: int, length: int) -> tuple[int, int]:
    """Units, the grain at which they may be split."""
    return rows, max(1, ELEMENTS_PER_GRAIN // max(1, length))


class _Running:
    """The lowering of the places."""

    def __init__(self, family: Family, wide: bool) -> None:
        self.family = family
        self.builder = family.builder
        self.source, self.out = family.pointers(2)
        _, self.length, self.source_row, self.step, flip = family.arguments(5)
        self.keys = Keys(family, wide, flip, nan_last=True)
        self.buffer = family.builder.alloca(self.keys.vector)

    def row(self, number: Value) -> None:
        """One row: sixteen keys at a time, compared one by one."""
        b, keys = self.builder, self.keys
        source = self.family.at(self.source, (number, self.source_row))
        out = b.gep(self.out, [b.mul(b.mul(number, self.length), integer(8))])

        def chunk(start: Value, carry: list[Value]) -> list[Value]:
            b.store(keys.read(source, start, self.length, self.step), self.buffer)
            stop = smaller(b, self.length, b.add(start, integer(LANES)))

            def one(index: Value, state: list[Value]) -> list[Value]:
                best, place = state
                lane = b.mul(b.sub(index, start), integer(keys.size))
                key = b.load(b.gep(self.buffer, [lane]), typ=keys.element)
                better = b.icmp_unsigned(">=", key, best)
                place = b.select(better, index, place)
                b.store(place, b.gep(out, [b.mul(index, integer(8))]))
                return [b.select(better, key, best), place]

            return counted(b, start, stop, 1, carry, one)

        least = Value(keys.element, "0")
        counted(b, integer(0), self.length, LANES, [least, Value(I64, "0")], chunk)
