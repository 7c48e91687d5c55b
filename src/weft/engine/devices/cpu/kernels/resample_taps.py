"""Taps of a resampling, each by itself: what weighs them, and which of them is the largest.

Over (outer, axis, inner), as in `resample`, with the pointers and arguments that it has:
  products  out[tap, place]          = sum over outer, inner of source[outer, index[tap, place], inner] with
                                       weights[outer, place, inner]
  largest   out[outer, place, inner] = index[tap, place] of the largest source[outer, index[tap, place], inner]
A product is the derivative by a weight: the lines of the cotangent lie where a resampling has its weights, and a tap
that points outside has 0.  The largest of equal elements is that of the first tap, -1 where none points inside; a nan
counts only as the first.  A unit is a place, or a line of the result.
"""

from __future__ import annotations

from weft.engine.devices.cpu.kernels.kernel_base import Family, each
from weft.engine.devices.cpu.kernels.resample import ELEMENTS_PER_GRAIN, Resampling
from weft.engine.devices.cpu.limits import LANES
from weft.engine.devices.cpu.llvm.builder import I64, Value, choose, counted, integer
from weft.engine.devices.cpu.llvm.simd_value import SimdValue
from weft.engine.devices.cpu.llvm.target import Target


def lower_products(dtype: str, name: str, target: Target | None = None) -> str:
    """The LLVM module of products in one dtype."""
    return _module(_Products, dtype, name, target)


def lower_largest(dtype: str, name: str, target: Target | None = None) -> str:
    """The LLVM module of the largest elements of one dtype."""
    return _module(_Largest, dtype, name, target)


def _module(
    direction: type[_Products | _Largest], dtype: str, name: str, target: Target | None
) -> str:
    family = Family(name, dtype, target, LANES)
    each(family.builder, family.begin, family.end, direction(family).unit)
    return family.finish()


def launch_products(outer: int, taps: int, places: int, inner: int) -> tuple[int, int]:
    """Units, the grain at which they may be split."""
    return places, max(1, ELEMENTS_PER_GRAIN // max(1, outer * inner * taps))


def launch_largest(outer: int, taps: int, places: int, inner: int) -> tuple[int, int]:
    """Units, the grain at which they may be split."""
    return outer * places, max(1, ELEMENTS_PER_GRAIN // max(1, inner * taps))


class _Products(Resampling):
    """Each tap is the product of the line that it points at with the line of its place."""

    def unit(self, place: Value) -> None:
        """The taps of one place."""
        single = self.family.with_lanes(1)
        zero = single.e.constant(0, single.dtype).value

        def tap(number: Value) -> None:
            (total,) = self.inside(
                number, place, lambda index: [self._product(place, index)], [zero]
            )
            out = single.at(self.out, (number, self.places), (place, integer(1)))
            single.store(SimdValue(single.dtype, total), out, None)

        each(self.builder, integer(0), self.taps, tap)

    def _product(self, place: Value, index: Value) -> Value:
        """The product of two lines, over all outer rows: `LANES` partial sums, each in order, then folded."""
        b, family = self.builder, self.family

        def row(outer: Value, carry: list[Value]) -> list[Value]:
            lines = (
                self._line(self.source, outer, self.extent, index),
                self._line(self.weights, outer, self.places, place),
            )

            def add(column: Value, count: Value | None, carry: list[Value]) -> list[Value]:
                a, w = (family.load(family.at(at, (column, integer(1))), count) for at in lines)
                return [self.added(family, SimdValue(family.dtype, *carry), w, a).value]

            full = b.and_(self.inner, integer(-family.e.lanes))
            rest = b.sub(self.inner, full)
            carry = counted(
                b, integer(0), full, family.e.lanes, carry, lambda i, carry: add(i, None, carry)
            )
            some = b.icmp_signed(">", rest, integer(0))
            return choose(b, some, lambda: add(full, rest, carry), lambda: carry)

        zero = self.e.constant(0, family.dtype).value
        return self._folded(*counted(b, integer(0), self.outer, 1, [zero], row))

    def _line(self, pointer: Value, outer: Value, count: Value, number: Value) -> Value:
        """The address of a line of an outer row, which has `count` of them."""
        row = self.builder.add(self.builder.mul(outer, count), number)
        return self.lines(pointer, row, self.inner)

    def _folded(self, sums: Value) -> Value:
        """All lanes added by halves."""
        half, dtype = LANES // 2, self.family.dtype
        while half:
            moved = self.builder.shuffle(sums, sums, [i ^ half for i in range(LANES)])
            sums = self.e.add(SimdValue(dtype, sums), SimdValue(dtype, moved)).value
            half //= 2
        return self.builder.shuffle(sums, sums, [0])


class _Largest(Resampling):
    """Each element of a line of the result is the index of a tap."""

    def unit(self, number: Value) -> None:
        """A line of the result."""
        b, family = self.builder, self.family
        outer = b.udiv(number, self.places)
        place = b.sub(number, b.mul(outer, self.places))
        source = self.lines(self.source, outer, b.mul(self.extent, self.inner))
        out = b.gep(self.out, [b.mul(b.mul(number, self.inner), integer(8))])

        def piece(column: Value, count: Value | None) -> None:
            def tap(number: Value, carry: list[Value]) -> list[Value]:
                def compare(index: Value) -> list[Value]:
                    line = family.at(source, (index, self.inner), (column, integer(1)))
                    return self._larger(carry, family.load(line, count), index)

                return self.inside(number, place, compare, carry)

            start = [self.e.constant(0, family.dtype).value, self.e.literal(-1, I64)]
            _, found = counted(b, integer(0), self.taps, 1, start, tap)
            at = b.gep(out, [b.mul(column, integer(8))])
            self._store(found, at, count)

        family.pieces(integer(0), self.inner, piece)

    def _larger(self, before: list[Value], value: SimdValue, index: Value) -> list[Value]:
        """(value, index) of the largest, where that of one tap is `value` in each lane."""
        b, lanes = self.builder, self.e.lanes
        first = b.icmp_signed("<", before[1], self.e.literal(0, I64))
        larger = self.e.gt(value, SimdValue(value.dtype, before[0])).value
        taken = b.or_(first, larger)
        return [
            b.select(taken, value.value, before[0]),
            b.select(taken, b.broadcast(index, lanes), before[1]),
        ]

    def _store(self, found: Value, at: Value, count: Value | None) -> None:
        if count is None:
            self.family.memory.store(found, at)
        else:
            self.family.memory.store_partial(found, at, None, count, "int64")
