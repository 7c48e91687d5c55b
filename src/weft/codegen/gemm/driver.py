"""The kernel itself: units, cache blocks, and which panels are packed or stored through a buffer.

A unit is `unit_rows` x `width` elements of C of one matrix of the batch; units with the same
columns follow each other, so that a piece of the range packs each block of B once.  For a run of
such units the kernel walks K in blocks; each block of B is packed on first use, each panel of A
once per block, and the register tiles carry their chains on in C.  Where C cannot hold them (K is
longer than a chunk, columns are not contiguous, a tile is partial, the dtype is narrow or complex)
a group of rows keeps them in a buffer.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ..elementary.lanes import Lanes
from ..text import I64, Builder, Value
from .code import (
    Function,
    Index,
    address,
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
from .micro import Micro, row_panel
from .output import Put, Shift, fold
from .panels import STRETCH, Ahead, Gather, Sheet
from .spec import CHUNK, DEPTH, Spec
from .turned import Turned


class Parts:
    """The functions that a kernel calls, in the order of their text."""

    def __init__(self, module: ir.Module, name: str, spec: Spec) -> None:
        sizes = (spec.rows, *spec.smaller_tiles)
        micros = {rows: Micro(module, f"{name}.tile{rows}", spec, rows).build() for rows in sizes}
        self.rows = (
            micros[spec.rows] if spec.exact else row_panel(module, f"{name}.rows", spec, micros)
        )
        self.turned = (
            Turned(module, f"{name}.turned", spec, spec.rows).build() if spec.turned else None
        )
        self.gather = Gather(module, f"{name}.gather", spec).build()
        native = spec.number.native and not spec.turned
        self.sheet = Sheet(module, f"{name}.sheet", spec).build() if native else None
        tiles = native and not spec.exact
        self.ahead = Ahead(module, f"{name}.ahead", spec).build() if tiles else None
        self.fold = fold(module, f"{name}.fold", spec)
        self.put = Put(module, f"{name}.put", spec).build()
        self.shift = Shift(module, f"{name}.shift", spec)
        own = () if spec.exact else (self.rows,)
        self.all: list[Builder] = [*micros.values(), *own, self.gather, self.fold, self.put]
        self.all += [part for part in (self.turned, self.sheet, self.ahead) if part]
        if spec.biased:
            self.all.append(self.shift.build())


class Driver:
    """Writes the kernel."""

    def __init__(self, module: ir.Module, name: str, spec: Spec) -> None:
        self.spec, self.number = spec, spec.number
        self.parts = Parts(module, name, spec)
        self.f = Builder(module, name)
        self.element = spec.number.compute
        planes = spec.number.planes
        self.line = spec.width * planes  # of the buffers
        self.packed_a = buffer(self.f, self.element, spec.a_plane * planes)
        self.packed_b = buffer(
            self.f,
            self.element,
            self.spec.depth * (self.spec.b_stride if self.spec.turned else self.line),
        )
        self.chain = buffer(self.f, self.element, spec.group_rows * self.line)
        self.total = buffer(self.f, self.element, spec.group_rows * self.line)

    def build(self) -> list[Builder]:
        self.read_arguments()
        self.walk_units()
        self.f.ret_void()
        return [*self.parts.all, self.f]

    def read_arguments(self) -> None:
        f = self.f
        pointers = [
            f.load(address(f, f.arguments["pointers"], i, ir.PointerType()), typ=ir.PointerType())
            for i in range(4 if self.spec.biased else 3)
        ]
        values = [
            Lanes(f, f.load(address(f, f.arguments["arguments"], i, I64), typ=I64))
            for i in range(13)
        ]
        self.a, self.b, self.c = pointers[:3]
        self.bias = pointers[3:]
        _, self.m, self.n, self.k = values[:4]
        self.a_strides, self.b_strides, self.c_strides = values[4:7], values[7:10], values[10:13]
        if self.spec.swapped:
            self.a, self.b, self.m, self.n = self.b, self.a, self.n, self.m
            self.a_strides, self.b_strides = mirrored(self.b_strides), mirrored(self.a_strides)
            self.c_strides = mirrored(self.c_strides)

    def element_address(self, base: Any, strides: list[Index], *place: Index) -> Value:
        offset = sum((s * i for s, i in zip(strides[1:], place[1:], strict=True)),
                     strides[0] * place[0])  # fmt: skip
        return address(self.f, base, offset * self.number.planes, self.number.memory)

    def walk_units(self) -> None:
        """Runs of units of the same matrix and columns."""
        f, spec = self.f, self.spec
        begin, end = Lanes(f, f.arguments["begin"]), Lanes(f, f.arguments["end"])
        row_units = maximum(ceiling(self.m, spec.unit_rows), 1)
        column_units = maximum(ceiling(self.n, spec.width), 1)
        first, last = quotient(begin, row_units), ceiling_by(end, row_units)
        with loop(f, last, start=first) as run:
            before = run * row_units
            low = maximum(begin - before, 0) * spec.unit_rows
            high = minimum(minimum(end - before, row_units) * spec.unit_rows, self.m)
            self.batch = quotient(run, column_units)
            self.column = remainder(run, column_units) * spec.width
            self.run(low, high)

    def run(self, low: Index, high: Index) -> None:
        f, spec = self.f, self.spec
        self.columns = minimum(self.n - self.column, spec.width)
        self.panels = ceiling(self.columns, spec.columns)
        self.short = self.k <= CHUNK
        if self.number.native:
            plain = self.short & self.c_strides[2].equals(1)
            self.direct = plain.where(quotient(self.columns, spec.columns), 0)
        else:
            self.direct = number(f, 0)
        buffered = self.direct < self.panels
        step = buffered.where(number(f, spec.group_rows), high)
        with loop(f, high, step, start=low) as row:
            self.group(row, minimum(high - row, step), buffered)

    def group(self, row: Index, rows: Index, buffered: Lanes) -> None:
        """All of K for some rows; K = 0 is one empty block, whose sums are zero."""
        f = self.f
        with loop(f, maximum(self.k, 1), self.spec.depth) as start:
            depth = minimum(self.k - start, self.spec.depth)
            self.block(row, rows, start, depth)
            reached = start + depth
            ended = (reached & (CHUNK - 1)).equals(0) | reached.equals(self.k)
            with when(f, ended & (self.short ^ 1)):
                first = reached <= CHUNK
                length = self.panels * self.spec.b_stride
                self.parts.fold.invoke(
                    f, self.total, self.chain, rows, length, number(f, self.line), first
                )
        with when(f, buffered):
            self.finish(row, rows)
        if self.spec.biased:
            self.add_bias(row, rows)

    def add_bias(self, row: Index, rows: Index) -> None:
        """The bias lies along the columns of the product, which are the rows here where the kernel is swapped."""
        f = self.f
        with loop(f, rows) as i:
            along = row + i if self.spec.swapped else self.column
            self.parts.shift.f.invoke(
                f, self.element_address(self.c, self.c_strides, self.batch, row + i, self.column),
                self.c_strides[2], self.columns, address(f, self.bias[0], along, self.element),
                number(f, 0 if self.spec.swapped else 1),
            )  # fmt: skip

    def finish(self, row: Index, rows: Index) -> None:
        f, spec = self.f, self.spec
        source = either(f, self.short, self.chain, self.total)
        with loop(f, rows) as i, loop(f, self.panels, start=self.direct) as panel:
            column = panel * spec.columns
            place = address(f, source, i * self.line + panel * spec.b_stride, self.element)
            target = self.element_address(
                self.c, self.c_strides, self.batch, row + i, self.column + column
            )
            count = minimum(self.columns - column, spec.columns)
            self.parts.put.invoke(f, place, count, target, self.c_strides[2])

    def block(self, row: Index, rows: Index, start: Index, depth: Index) -> None:
        """One block of K for some rows and all columns of the unit."""
        f, spec = self.f, self.spec
        if self.number.native:
            unpacked = (rows <= spec.direct_rows) & self.b_strides[2].equals(1)
        else:
            unpacked = Lanes(f, Value(ir.IntType(1), "false"))
        single = rows <= spec.rows
        sheets = self.sheets_of_b(start, depth, unpacked, single)
        with loop(f, rows, spec.rows) as i:
            count = minimum(rows - i, spec.rows)
            source = self.element_address(self.a, self.a_strides, self.batch, row + i, start)
            self.parts.gather.invoke(
                f, source, self.a_strides[1], self.a_strides[2], count, depth,
                self.packed_a, number(f, spec.a_stride), number(f, spec.a_plane),
            )  # fmt: skip
            with loop(f, self.panels) as panel:
                self.look_ahead(row + i + spec.rows, start, panel)
                whole = (panel + 1) * spec.columns <= self.columns
                carry = (start & (CHUNK - 1)).equals(0) ^ 1
                out, out_stride = self.place_of_tile(panel, row, i)
                if self.parts.turned:
                    self.turned_panel(
                        self.parts.turned, panel, start, depth, whole, out, out_stride, carry
                    )
                else:
                    place, stride = self.panel_of_b(
                        panel, start, depth, unpacked & whole,
                        i.equals(0) & ((panel < sheets) ^ 1), single,
                    )  # fmt: skip
                    leading = () if spec.exact else (count,)
                    self.parts.rows.invoke(
                        f, *leading, self.packed_a, place, stride, depth, out, out_stride, carry
                    )

    def look_ahead(self, row: Index, start: Index, panel: Index) -> None:
        """Ask for a part of the panel of A that comes next; beyond the last row nothing happens."""
        f = self.f
        if self.parts.ahead is not None:
            source = self.element_address(self.a, self.a_strides, self.batch, row, start)
            with when(f, panel < DEPTH // STRETCH):
                self.parts.ahead.invoke(
                    f, source, self.a_strides[1], self.a_strides[2], panel * STRETCH
                )

    def sheets_of_b(self, start: Index, depth: Index, unpacked: Lanes, single: Lanes) -> Index:
        """Pack the whole panels of the unit at once, where columns lie beside each other; how many those are."""
        f, spec = self.f, self.spec
        if self.parts.sheet is None:
            return number(f, 0)
        useful = self.b_strides[2].equals(1) & ((unpacked | single) ^ 1)
        count = useful.where(quotient(self.columns, spec.columns), 0)
        with when(f, count > 0):
            source = self.element_address(self.b, self.b_strides, self.batch, start, self.column)
            self.parts.sheet.invoke(
                f, source, self.b_strides[1], depth, count, self.packed_b,
                number(f, spec.b_stride), number(f, spec.depth * spec.b_stride),
            )  # fmt: skip
        return count

    def turned_panel(
        self, turned: Function, panel: Index, start: Index, depth: Index, whole: Lanes,
        out: Value, out_stride: Index, carry: Lanes,
    ) -> None:  # fmt: skip
        """A panel whose B lies along k: whole vectors of k where it lies, the rest packed."""
        f, spec = self.f, self.spec
        column = self.column + panel * spec.columns
        fits = whole & self.b_strides[1].equals(1)
        read = fits.where(depth & -spec.lanes, 0)
        with when(f, read > 0):
            source = self.element_address(self.b, self.b_strides, self.batch, start, column)
            turned.invoke(f, self.packed_a, source, self.b_strides[2], read, out, out_stride, carry)
        with when(f, (read < depth) | depth.equals(0)):
            source = self.element_address(self.b, self.b_strides, self.batch, start + read, column)
            self.parts.gather.invoke(
                f, source, self.b_strides[1], self.b_strides[2], depth - read,
                minimum(self.columns - panel * spec.columns, spec.columns),
                self.packed_b, number(f, spec.b_stride), number(f, spec.columns),
            )  # fmt: skip
            a = address(f, self.packed_a, read, self.element)
            self.parts.rows.invoke(
                f, a, self.packed_b, number(f, spec.b_stride), depth - read, out, out_stride,
                carry | (read > 0),
            )  # fmt: skip

    def panel_of_b(
        self, panel: Index, start: Index, depth: Index, unpacked: Lanes, first: Lanes,
        single: Lanes,
    ) -> tuple[Value, Index]:  # fmt: skip
        """(address, stride) of a panel, packed if need be; a lone row panel reuses one place."""
        f, spec = self.f, self.spec
        column = panel * spec.columns
        source = self.element_address(
            self.b, self.b_strides, self.batch, start, self.column + column
        )
        slot = single.where(number(f, 0), panel * (spec.depth * spec.b_stride))
        packed = address(f, self.packed_b, slot, self.element)
        with when(f, first & (unpacked ^ 1)):
            self.parts.gather.invoke(
                f, source, self.b_strides[1], self.b_strides[2], depth,
                minimum(self.columns - column, spec.columns),
                packed, number(f, spec.b_stride), number(f, spec.columns),
            )  # fmt: skip
        place = either(f, unpacked, source, packed)
        return place, unpacked.where(self.b_strides[1], spec.b_stride)

    def place_of_tile(self, panel: Index, row: Index, i: Index) -> tuple[Value, Index]:
        """(address, row stride) of the accumulators: C itself or the buffer."""
        f, spec = self.f, self.spec
        offset = i * self.line + panel * spec.b_stride
        held = address(f, self.chain, offset, self.element)
        own = self.element_address(
            self.c, self.c_strides, self.batch, row + i, self.column + panel * spec.columns
        )
        direct = panel < self.direct
        return either(f, direct, own, held), direct.where(self.c_strides[1], self.line)


def mirrored(strides: list[Index]) -> list[Index]:
    """Strides of the transposed matrices."""
    return [strides[0], strides[2], strides[1]]


def maximum(a: Index, b: int) -> Index:
    return (a > b).where(a, b)


def ceiling_by(a: Index, b: Index) -> Index:
    return quotient(a + b - 1, b)
