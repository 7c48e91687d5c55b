"""Scatter: elements are stored, added or compared at the positions that an index names, in the order of the index.

Over (outer, positions, inner): out[outer, index[...], inner] = combine(that, source[outer, position, inner]).
Pointers: the index (int64), the source, the output, the status cell. Arguments: outer, positions, inner, the extent of
the indexed axis, then (outer, position, inner) strides of index, source and output. Positions run in order, so that
the last write wins and sums have one order; a unit is a block of inner columns of one outer row, which nobody else
touches. An index out of range, as every negative one is, sets the status cell to 1 and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.engine.devices.cpu.kernels.kernel_base import Family, each
from weft.engine.devices.cpu.llvm.builder import I64, Value, choose, integer, minimum
from weft.engine.devices.cpu.llvm.target import Target

COLUMNS = 128  # inner elements of one unit
ELEMENTS_PER_GRAIN = 4096


def lower_scatter(dtype: str, combine: str | None, name: str, target: Target | None = None) -> str:
    """The LLVM module that combines elements of one dtype with the output's by a function of the emitter (add,
    maximum, minimum), or stores them."""
    family = Family(name, dtype, target)
    scatter = _Scatter(family, combine)
    each(family.builder, family.begin, family.end, scatter.unit)
    return family.finish()


def launch_scatter(outer: int, positions: int, inner: int) -> tuple[int, int, int]:
    """Units, the grain at which they may be split, bytes of scratch."""
    elements = max(1, positions * min(inner, COLUMNS))
    return outer * -(-inner // COLUMNS), max(1, ELEMENTS_PER_GRAIN // elements), 0


class _Scatter:
    """The lowering of one scatter."""

    def __init__(self, family: Family, combine: str | None) -> None:
        self.family = family
        self.builder = family.builder
        self.combine = combine
        self.single = family.with_lanes(1)
        self.index, self.source, self.out, self.status = family.pointers(4)
        _, self.positions, self.inner, self.extent, *strides = family.arguments(13)
        self.index_strides, self.source_strides, self.out_strides = (
            strides[i : i + 3] for i in (0, 3, 6)
        )

    def unit(self, number: Value) -> None:
        """A block of columns of one outer row."""
        b = self.builder
        blocks = b.udiv(b.add(self.inner, integer(COLUMNS - 1)), integer(COLUMNS))
        outer = b.udiv(number, blocks)
        start = b.mul(b.sub(number, b.mul(outer, blocks)), integer(COLUMNS))
        stop = minimum(b, self.inner, b.add(start, integer(COLUMNS)))
        index = self._index_at(self.index, outer, self.index_strides[0])
        source = self.family.at(self.source, (outer, self.source_strides[0]))
        out = self.family.at(self.out, (outer, self.out_strides[0]))
        alone = b.icmp_signed("==", self.inner, integer(1))
        choose(
            b,
            alone,
            lambda: self._line(index, source, out),
            lambda: self._block(index, source, out, start, stop),
        )

    def _line(self, index: Value, source: Value, out: Value) -> list[Value]:
        """The positions of a row of single elements."""

        def position(number: Value) -> None:
            value = self.family.at(source, (number, self.source_strides[1]))

            def write(place: Value) -> None:
                self._put(
                    self.single, value, self.family.at(out, (place, self.out_strides[1])), None
                )

            self._checked(self._index_at(index, number, self.index_strides[1]), write)

        each(self.builder, integer(0), self.positions, position)
        return []

    def _block(
        self, index: Value, source: Value, out: Value, start: Value, stop: Value
    ) -> list[Value]:
        """The positions of columns [start, stop)."""
        b = self.builder
        together = b.icmp_signed("==", self.index_strides[2], integer(0))
        for strides in (self.source_strides, self.out_strides):
            together = b.and_(together, b.icmp_signed("==", strides[2], integer(1)))

        def position(number: Value) -> None:
            here = self._index_at(index, number, self.index_strides[1])
            values = self.family.at(source, (number, self.source_strides[1]))
            choose(
                b,
                together,
                lambda: self._row(here, values, out, start, stop),
                lambda: self._elements(here, values, out, start, stop),
            )

        each(b, integer(0), self.positions, position)
        return []

    def _index_at(self, pointer: Value, number: Value, stride: Value) -> Value:
        b = self.builder
        return b.gep(pointer, [b.mul(b.mul(number, stride), integer(8))])

    def _row(
        self, index: Value, source: Value, out: Value, start: Value, stop: Value
    ) -> list[Value]:
        """Contiguous columns that go to one place together."""

        def write(place: Value) -> None:
            target = self.family.at(out, (place, self.out_strides[1]))

            def piece(column: Value, count: Value | None) -> None:
                offset = (column, integer(1))
                self._put(
                    self.family,
                    self.family.at(source, offset),
                    self.family.at(target, offset),
                    count,
                )

            self.family.pieces(start, stop, piece)

        self._checked(index, write)
        return []

    def _elements(
        self, index: Value, source: Value, out: Value, start: Value, stop: Value
    ) -> list[Value]:
        """Columns one by one, each to its own place."""

        def column(number: Value) -> None:
            def write(place: Value) -> None:
                value = self.family.at(source, (number, self.source_strides[2]))
                target = self.family.at(
                    out, (place, self.out_strides[1]), (number, self.out_strides[2])
                )
                self._put(self.single, value, target, None)

            self._checked(self._index_at(index, number, self.index_strides[2]), write)

        each(self.builder, start, stop, column)
        return []

    def _put(self, family: Family, source: Value, target: Value, count: Value | None) -> None:
        value = family.load(source, count)
        if self.combine is not None:
            value = getattr(family.e, self.combine)(family.load(target, count), value)
        family.store(value, target, count)

    def _checked(self, index: Value, write: Callable[[Value], None]) -> None:
        """`write` at the index read there, or the status cell set."""
        b = self.builder
        place = b.load(index, typ=I64)

        def inside() -> list[Value]:
            write(place)
            return []

        def outside() -> list[Value]:
            b.store(integer(1), self.status)
            return []

        choose(b, b.icmp_unsigned("<", place, self.extent), inside, outside)
