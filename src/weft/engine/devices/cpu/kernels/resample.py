"""Resampling: sums of weighted elements along an axis, and their transpose (the product of a sparse matrix with lines).

Over (outer, axis, inner), all without gaps, with as many *taps* for each place of the result:
  gathered  out[outer, place, inner]      = sum over taps of weights[tap, place] source[outer, index[tap, place], inner]
  spread    out[outer, index[..], inner] += weights[tap, place] source[outer, place, inner], from zeros
Pointers: the source, the index (int64), the weights, the output.  Arguments: outer, taps, places, the extent that the
index points into, inner, then the (tap, place) strides of index and weights, whose places lie without gaps where inner
is 1.  A tap that points outside, as a negative one does, adds nothing, whatever its weight.  Taps are added in order,
spread ones place by place.  A unit is a line of the result (of a single inner element: all lines of one outer row), or
the columns of an outer row that are spread.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.engine.devices.cpu.kernels.kernel_base import Family, each
from weft.engine.devices.cpu.limits import LANES
from weft.engine.devices.cpu.llvm.builder import I64, Value, choose, counted, integer, minimum
from weft.engine.devices.cpu.llvm.simd_value import SimdValue
from weft.engine.devices.cpu.llvm.target import Target

COLUMNS = 128  # inner elements of one unit of a spread
VECTORS = 4  # of a line that are summed together, so that its taps are read seldom
ELEMENTS_PER_GRAIN = 4096
_Tap = tuple[Value, Value]  # its number, and its place


def lower_resample(dtype: str, spread: bool, name: str, target: Target | None = None) -> str:
    """The LLVM module of one dtype."""
    family = Family(name, dtype, target, LANES)
    unit = _Spread(family).unit if spread else _Gathered(family).unit
    each(family.builder, family.begin, family.end, unit)
    return family.finish()


def launch_resample(
    spread: bool, outer: int, taps: int, places: int, inner: int
) -> tuple[int, int]:
    """Units, the grain at which they may be split."""
    if spread:
        units, elements = outer * -(-inner // COLUMNS), places * min(inner, COLUMNS)
    elif inner == 1:
        units, elements = outer, places
    else:
        units, elements = outer * places, inner
    return units, max(1, ELEMENTS_PER_GRAIN // max(1, elements * taps))


class Resampling:
    """The pointers and arguments of all directions."""

    def __init__(self, family: Family) -> None:
        self.family, self.builder, self.e = family, family.builder, family.e
        self.source, self.index, self.weights, self.out = family.pointers(4)
        self.outer, self.taps, self.places, self.extent, self.inner, *steps = family.arguments(9)
        self.index_steps, self.weight_steps = steps[:2], steps[2:]

    def lines(self, pointer: Value, number: Value, width: Value) -> Value:
        """The addresses of lines of `width` elements by `number`."""
        return self.family.at(pointer, (number, width))

    def index_at(self, tap: Value, place: Value) -> Value:
        """The address of the index of a tap."""
        b, steps = self.builder, self.index_steps
        offset = b.add(b.mul(tap, steps[0]), b.mul(place, steps[1]))
        return b.gep(self.index, [b.mul(offset, integer(8))])

    def weight_at(self, tap: Value, place: Value) -> Value:
        """The address of the weight of a tap."""
        steps = self.weight_steps
        return self.family.at(self.weights, (tap, steps[0]), (place, steps[1]))

    def weight(self, family: Family, tap: Value, place: Value) -> SimdValue:
        """One weight in every lane."""
        at = self.weight_at(tap, place)
        return SimdValue(family.dtype, family.memory.load_one(at, family.dtype))

    def inside(
        self, tap: Value, place: Value, found: Callable[[Value], list[Value]], other: list[Value]
    ) -> list[Value]:
        """`found(index)` where a tap points inside."""
        b = self.builder
        index = b.load(self.index_at(tap, place), typ=I64)
        return choose(
            b, b.icmp_unsigned("<", index, self.extent), lambda: found(index), lambda: other
        )

    def added(
        self, family: Family, total: SimdValue, weight: SimdValue, value: SimdValue
    ) -> SimdValue:
        """One tap more."""
        return family.e.add(total, family.e.mul(weight, value))


class _Gathered(Resampling):
    """Each place of the result looks up its taps."""

    def unit(self, number: Value) -> None:
        """A line of the result, or all single elements of an outer row."""
        choose(
            self.builder,
            self.builder.icmp_signed("==", self.inner, integer(1)),
            lambda: self._row(number),
            lambda: self._line(number),
        )

    def _line(self, number: Value) -> list[Value]:
        """The inner elements of one place, several vectors together as long as they are full."""
        b, family = self.builder, self.family
        wide = family.with_lanes(VECTORS * family.e.lanes)
        full = b.and_(self.inner, integer(-wide.e.lanes))
        self._columns(wide, number, integer(0), full)
        self._columns(family, number, full, self.inner)
        return []

    def _columns(self, family: Family, number: Value, start: Value, stop: Value) -> None:
        """Columns [start, stop) of one place."""
        b = self.builder
        outer = b.udiv(number, self.places)
        place = b.sub(number, b.mul(outer, self.places))
        source = self.lines(self.source, outer, b.mul(self.extent, self.inner))
        out = self.lines(self.out, number, self.inner)

        def piece(column: Value, count: Value | None) -> None:
            def tap(number: Value, carry: list[Value]) -> list[Value]:
                def add(index: Value) -> list[Value]:
                    line = family.at(source, (index, self.inner), (column, integer(1)))
                    total = SimdValue(family.dtype, *carry)
                    weight = self.weight(family, number, place)
                    return [self.added(family, total, weight, family.load(line, count)).value]

                return self.inside(number, place, add, carry)

            zero = family.e.constant(0, family.dtype).value
            total = counted(b, integer(0), self.taps, 1, [zero], tap)
            family.store(
                SimdValue(family.dtype, *total), family.at(out, (column, integer(1))), count
            )

        family.pieces(start, stop, piece)

    def _row(self, number: Value) -> list[Value]:
        """Single elements: a vector of places, each lane looks up its own."""
        b, family = self.builder, self.family
        source = self.lines(self.source, number, self.extent)
        out = self.lines(self.out, number, self.places)

        def piece(place: Value, count: Value | None) -> None:
            def tap(number: Value, carry: list[Value]) -> list[Value]:
                inside, value = self._taken(source, self.index_at(number, place), count)
                weight = family.load(self.weight_at(number, place), count)
                total = self.added(family, SimdValue(family.dtype, carry[0]), weight, value)
                return [b.select(inside, total.value, carry[0])]

            zero = self.e.constant(0, family.dtype).value
            total = counted(b, integer(0), self.taps, 1, [zero], tap)
            family.store(
                SimdValue(family.dtype, *total), family.at(out, (place, integer(1))), count
            )

        family.pieces(integer(0), self.places, piece)
        return []

    def _taken(self, source: Value, pointer: Value, count: Value | None) -> tuple[Value, SimdValue]:
        """The mask of lanes of a tap that point inside, and the values that they point at."""
        b, memory, lanes = self.builder, self.family.memory, self.e.lanes
        several = integer(lanes) if count is None else count
        index = memory.load_partial(pointer, "int64", None, several)
        inside = b.icmp_unsigned("<", index, b.broadcast(self.extent, lanes))
        index = b.select(inside, index, Value(index.type, "zeroinitializer"))
        steps = b.mul(index, b.broadcast(integer(self.family.size), lanes))
        value = memory.gather(b.gep(source, [steps]), self.family.dtype)
        return inside, SimdValue(self.family.dtype, value)


class _Spread(Resampling):
    """Each place of the source adds to where its taps point."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self.single = family.with_lanes(1)

    def unit(self, number: Value) -> None:
        """A block of columns of an outer row, zeroed and added to."""
        b = self.builder
        blocks = b.udiv(b.add(self.inner, integer(COLUMNS - 1)), integer(COLUMNS))
        outer = b.udiv(number, blocks)
        start = b.mul(b.sub(number, b.mul(outer, blocks)), integer(COLUMNS))
        stop = minimum(b, self.inner, b.add(start, integer(COLUMNS)))
        source = self.lines(self.source, outer, b.mul(self.places, self.inner))
        out = self.lines(self.out, outer, b.mul(self.extent, self.inner))
        alone = b.icmp_signed("==", self.inner, integer(1))
        choose(b, alone, lambda: self._clear_row(out), lambda: self._clear(out, start, stop))

        def place(number: Value) -> None:
            line = self.family.at(source, (number, self.inner))

            def tap(tap_number: Value) -> None:
                self._add_tap((tap_number, number), line, out, start, stop, alone)

            each(b, integer(0), self.taps, tap)

        each(b, integer(0), self.places, place)

    def _clear_row(self, out: Value) -> list[Value]:
        """Zeros in single elements."""
        self._zeros(out, integer(0), self.extent)
        return []

    def _clear(self, out: Value, start: Value, stop: Value) -> list[Value]:
        """Zeros in columns [start, stop) of every line."""

        def line(number: Value) -> None:
            self._zeros(self.family.at(out, (number, self.inner)), start, stop)

        each(self.builder, integer(0), self.extent, line)
        return []

    def _zeros(self, line: Value, start: Value, stop: Value) -> None:
        family = self.family
        zero = self.e.constant(0, family.dtype)

        def piece(column: Value, count: Value | None) -> None:
            family.store(zero, family.at(line, (column, integer(1))), count)

        family.pieces(start, stop, piece)

    def _add_tap(
        self, tap: _Tap, line: Value, out: Value, start: Value, stop: Value, alone: Value
    ) -> None:
        """One tap of one place: a single element, or columns [start, stop)."""

        def add(index: Value) -> list[Value]:
            target = self.family.at(out, (index, self.inner))

            def one() -> list[Value]:
                self._add(self.single, tap, line, target, None)
                return []

            def several() -> list[Value]:
                def piece(column: Value, count: Value | None) -> None:
                    offset = (column, integer(1))
                    here = self.family.at(line, offset), self.family.at(target, offset)
                    self._add(self.family, tap, *here, count)

                self.family.pieces(start, stop, piece)
                return []

            return choose(self.builder, alone, one, several)

        self.inside(*tap, add, [])

    def _add(
        self, family: Family, tap: _Tap, source: Value, target: Value, count: Value | None
    ) -> None:
        total, value = family.load(target, count), family.load(source, count)
        added = self.added(family, total, self.weight(family, *tap), value)
        family.store(added, target, count)
