"""The GEMM driver, the kernel around the register tiles: units, cache blocks, and which panels are packed or buffered.

A unit is `unit_rows` x `width` elements of C of one matrix of the batch, or all rows x `narrow` of one product of no
more rows than columns; units with the same columns follow each other, over all matrices where they share B, so that a
piece of the range packs each block of B once. For a run of such units the kernel walks K in blocks; each block of B is
packed on first use, each panel of A once per block; few rows are packed together, and each panel of B meets them all,
packed just before or in place. The tiles carry their chains on in C. If C cannot hold them (K is longer than a chunk,
columns are not contiguous, a tile is partial, the dtype is narrow or complex) a group of rows keeps them in a buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from weft.engine.devices.cpu.elementary.expressions import SimdExpr
from weft.engine.devices.cpu.gemm.code import (
    Index,
    LocalFunction,
    address,
    buffer,
    ceiling,
    ceiling_by,
    either,
    loop,
    minimum,
    number,
    quotient,
    remainder,
    when,
)
from weft.engine.devices.cpu.gemm.microkernel import height_of_tiles, row_panel
from weft.engine.devices.cpu.gemm.output import Put, Shift, fold
from weft.engine.devices.cpu.gemm.panels import PREFETCH_COLUMNS, PanelGather, PanelPrefetch, Sheet
from weft.engine.devices.cpu.gemm.spec import DEPTH, Spec
from weft.engine.devices.cpu.gemm.tile_streaming import StreamFunction
from weft.engine.devices.cpu.gemm.tile_transposed import TransposedTile
from weft.engine.devices.cpu.llvm.builder import I1, I64, Builder, Value, integer
from weft.engine.kernels.reduction_order import PRODUCT_CHUNK


class Parts:
    """The functions that a kernel calls, in the order of their text."""

    def __init__(self, module: ir.Module, name: str, spec: Spec) -> None:
        self.rows, tiles = row_panel(module, f"{name}.tile", spec)
        self.transposed = (
            TransposedTile(module, f"{name}.turned", spec, spec.rows).build()
            if spec.transposed
            else None
        )
        self.gather = PanelGather(module, f"{name}.gather", spec).build()
        native = spec.number.native and not spec.transposed
        self.sheet = Sheet(module, f"{name}.sheet", spec).build() if native else None
        asks = native and not spec.exact
        self.ahead = PanelPrefetch(module, f"{name}.ahead", spec).build() if asks else None
        self.stream = (
            StreamFunction(module, f"{name}.stream", spec).build() if spec.streams else None
        )
        self.fold = fold(module, f"{name}.fold", spec)
        self.put = Put(module, f"{name}.put", spec).build()
        self.shift = Shift(module, f"{name}.shift", spec)
        self.all: list[Builder] = [*tiles, self.gather, self.fold, self.put]
        self.all += [
            part for part in (self.transposed, self.sheet, self.ahead, self.stream) if part
        ]
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
        self.packed_a = buffer(self.f, self.element, spec.a_plane * planes)
        self.packed_b = buffer(
            self.f,
            self.element,
            spec.depth * (spec.b_stride if spec.transposed else spec.width * planes),
        )
        self.chain = buffer(self.f, self.element, spec.chain_rows * spec.width * planes)
        self.total = buffer(self.f, self.element, spec.chain_rows * spec.width * planes)
        self.known = buffer(self.f, I64, 1)  # the number of the packed block of B

    def build(self) -> list[Builder]:
        self.read_arguments()
        self.f.store(integer(-1), self.known)
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
            SimdExpr(f, f.load(address(f, f.arguments["arguments"], i, I64), typ=I64))
            for i in range(13)
        ]
        self.a, self.b, self.c = pointers[:3]
        self.bias = pointers[3:]
        self.matrices, self.m, self.n, self.k = values[:4]
        self.a_strides, self.b_strides, self.c_strides = values[4:7], values[7:10], values[10:13]
        if self.spec.swapped:
            self.a, self.b, self.m, self.n = self.b, self.a, self.n, self.m
            self.a_strides, self.b_strides = mirrored(self.b_strides), mirrored(self.a_strides)
            self.c_strides = mirrored(self.c_strides)

    def element_address(self, base: Value, strides: list[Index], *place: Index) -> Value:
        offset = sum((s * i for s, i in zip(strides[1:], place[1:], strict=True)),
                     strides[0] * place[0])  # fmt: skip
        return address(self.f, base, offset * self.number.planes, self.number.memory)

    def walk_units(self) -> None:
        """Runs of units of the same matrix and columns; where B is shared, those of one column follow each other. Where
        columns alone are cut, units have all rows, and runs go on along the columns."""
        f, spec = self.f, self.spec
        begin, end = SimdExpr(f, f.arguments["begin"]), SimdExpr(f, f.arguments["end"])
        flat = self.matrices.equals(1) & (self.m <= minimum(self.n, spec.flat_rows))
        unit_rows = flat.where(maximum(self.m, 1), spec.unit_rows)
        row_units = maximum(ceiling_by(self.m, unit_rows), 1)
        wide = flat.where(number(f, spec.narrow), spec.width)
        column_units = maximum(ceiling_by(self.n, wide), 1)
        first, last = quotient(begin, row_units), ceiling_by(end, row_units)
        step = flat.where(number(f, spec.width // spec.narrow), 1)
        with loop(f, last, step, start=first) as run:
            before = run * row_units
            low = maximum(begin - before, 0) * unit_rows
            high = minimum(minimum(end - before, row_units) * unit_rows, self.m)
            shared = self.b_strides[0].equals(0)
            inner = shared.where(self.matrices, column_units)
            fast, slow = remainder(run, inner), quotient(run, inner)
            self.batch = shared.where(fast, slow)
            self.column = shared.where(slow, fast) * wide
            self.operand = shared.where(0, slow)  # of the matrices B
            most = minimum((last - run) * wide, spec.width)
            self.columns = minimum(self.n - self.column, flat.where(most, spec.width))
            self.run(low, high)

    def run(self, low: Index, high: Index) -> None:
        f, spec = self.f, self.spec
        self.panels = ceiling(self.columns, spec.columns)
        self.line = maximum(self.panels, 1) * spec.b_stride  # of the buffers
        self.short = self.k <= PRODUCT_CHUNK
        if self.number.native:
            plain = self.short & self.c_strides[2].equals(1)
            self.direct = plain.where(quotient(self.columns, spec.columns), 0)
        else:
            self.direct = number(f, 0)
        buffered = self.direct < self.panels
        self.few = high - low <= spec.a_rows
        step = buffered.where(self.rows_of_group(high - low), high)
        with loop(f, high, step, start=low) as row:
            self.group(row, minimum(high - row, step), buffered)

    def rows_of_group(self, rows: Index) -> Index:
        """As many rows as the buffers hold with these columns, so that B is packed seldom, in groups as equal as tiles
        allow."""
        f, spec = self.f, self.spec
        room = number(f, spec.chain_rows * spec.width * self.number.planes)
        most = quotient(quotient(room, self.line), spec.rows) * spec.rows
        groups = maximum(ceiling_by(rows, most), 1)
        return maximum(ceiling(ceiling_by(rows, groups), spec.rows), 1) * spec.rows

    def group(self, row: Index, rows: Index, buffered: SimdExpr) -> None:
        """All of K for some rows; K = 0 is one empty block, whose sums are zero."""
        f = self.f
        with loop(f, maximum(self.k, 1), self.spec.depth) as start:
            depth = minimum(self.k - start, self.spec.depth)
            self.block(row, rows, start, depth, buffered)
            reached = start + depth
            ended = (reached & (PRODUCT_CHUNK - 1)).equals(0) | reached.equals(self.k)
            with when(f, ended & (self.short ^ 1)):
                first = reached <= PRODUCT_CHUNK
                length = self.panels * self.spec.b_stride
                self.parts.fold.invoke(f, self.total, self.chain, rows, length, self.line, first)
        with when(f, buffered):
            self.finish(row, rows)
            if self.spec.biased:
                self.add_bias(row, rows)

    def add_bias(self, row: Index, rows: Index, columns: Index | None = None) -> None:
        """Add the bias, which goes along the columns of the product; these are the rows here if the kernel is
        swapped."""
        f = self.f
        columns = self.columns if columns is None else columns
        with loop(f, rows) as i:
            along = row + i if self.spec.swapped else self.column
            self.parts.shift.f.invoke(
                f, self.element_address(self.c, self.c_strides, self.batch, row + i, self.column),
                self.c_strides[2], columns, address(f, self.bias[0], along, self.element),
                number(f, 0 if self.spec.swapped else 1),
            )  # fmt: skip

    def add_bias_behind(self, row: Index, done: Index, rows: Index) -> None:
        """A group of rows at a time, when the last of them is done: C is near, and no longer being written."""
        f, size = self.f, self.spec.group_rows
        before = quotient(done - 1, size) * size
        with when(f, done.equals(before + size) | done.equals(rows)):
            self.add_bias(row + before, done - before)

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

    def block(
        self, row: Index, rows: Index, start: Index, depth: Index, buffered: SimdExpr
    ) -> None:
        """One block of K for some rows and all columns of the unit."""
        f, spec = self.f, self.spec
        across = self.a_strides[1].equals(1)  # each line of memory holds several rows
        step = (self.few | across).where(number(f, spec.a_rows), spec.rows)
        panel_of_b = None if self.parts.transposed else self.packing_of_b(rows, start, depth)
        ends = (buffered ^ 1) & (start + depth).equals(self.k)  # with C, which no buffer stands for
        with loop(f, rows, step) as first:
            count = minimum(rows - first, step)
            source = self.element_address(self.a, self.a_strides, self.batch, row + first, start)
            self.parts.gather.invoke(
                f, source, self.a_strides[1], self.a_strides[2], count, depth,
                self.packed_a, number(f, spec.a_stride), number(f, spec.a_plane),
            )  # fmt: skip
            height = height_of_tiles(f, spec, count)
            tiles = ceiling_by(count, height)
            inner = self.few.where(tiles, self.panels)
            done = self.stream(row + first, rows, start, depth, ends)
            with loop(f, tiles * self.panels, start=done) as number_of_tile:
                slow, fast = quotient(number_of_tile, inner), remainder(number_of_tile, inner)
                panel, i = self.few.where(slow, fast), self.few.where(fast, slow) * height
                b = panel_of_b(panel, first + i) if panel_of_b else None
                self.look_ahead(row + first + i, step, start, panel)
                taken = minimum(count - i, height)
                self.tile(panel, row, first, i, taken, start, depth, b, ends)
            if spec.biased and not spec.shifts:
                with when(f, ends):
                    self.add_bias_behind(row, first + count, rows)

    def stream(self, row: Index, rows: Index, start: Index, depth: Index, ends: SimdExpr) -> Index:
        """Multiply a few rows by all whole panels that can be read in place; returns the number of panels."""
        f, spec = self.f, self.spec
        if self.parts.stream is None:
            return number(f, 0)
        along = self.b_strides[2].equals(1) & (rows <= spec.rows)
        panels = along.where(quotient(self.columns, spec.columns), 0)
        columns = panels * spec.columns
        with when(f, panels > 0):
            b = self.element_address(self.b, self.b_strides, self.batch, start, self.column)
            out, out_stride = self.place_of_tile(number(f, 0), row, number(f, 0))
            carry = (start & (PRODUCT_CHUNK - 1)).equals(0) ^ 1
            self.parts.stream.invoke(
                f, self.packed_a, b, self.b_strides[1], depth, columns, out, out_stride, carry
            )
            if spec.shifts:
                with when(f, ends):
                    self.add_bias(row, rows, columns)
        return panels

    def tile(
        self, panel: Index, row: Index, first: Index, i: Index, rows: Index, start: Index,
        depth: Index, b: tuple[Value, Index] | None, ends: SimdExpr,
    ) -> None:  # fmt: skip
        """One register tile: `rows` packed rows from `i` on, which begin at row `first` of the group, and a panel of B.
        Where it `ends` an element's sum, a bias is added."""
        f, spec = self.f, self.spec
        carry = (start & (PRODUCT_CHUNK - 1)).equals(0) ^ 1
        out, out_stride = self.place_of_tile(panel, row, first + i)
        if self.parts.transposed:
            whole = (panel + 1) * spec.columns <= self.columns
            self.turned_panel(
                self.parts.transposed, panel, start, depth, whole, out, out_stride, carry
            )
            return
        assert b is not None
        leading = () if spec.exact else (rows,)
        a = address(f, self.packed_a, i * spec.a_stride, self.element)
        shift: tuple[Any, ...] = ()
        if spec.shifts:
            shift = address(f, self.bias[0], self.column + panel * spec.columns, self.element), ends
        self.parts.rows.invoke(f, *leading, a, *b, depth, out, out_stride, carry, *shift)

    def packing_of_b(
        self, rows: Index, start: Index, depth: Index
    ) -> Callable[[Index, Index], tuple[Value, Index]]:
        """Pack what of a block of B is packed at once. The function given returns (address, stride) of a panel for the
        part of the rows that begins at `first`, and packs it before if need be."""
        f, spec = self.f, self.spec
        along = SimdExpr(f, Value(I1, "false"))
        if self.number.native:
            along = self.b_strides[2].equals(1)
        shared = (self.matrices > 1) & self.b_strides[0].equals(0)
        once = self.few & (shared ^ 1)
        unpacked = along & (
            (rows <= spec.rows) | (once & (self.b_strides[1] * self.k <= spec.near))
        )
        lone = once & (along ^ 1)  # panels that are met once have one place
        missing = self.is_missing(start, (unpacked | lone) ^ 1)
        sheets = self.sheets_of_b(start, depth, unpacked, missing)

        def panel_of_b(panel: Index, first: Index) -> tuple[Value, Index]:
            whole = (panel + 1) * spec.columns <= self.columns
            pending = missing & first.equals(0) & ((panel < sheets) ^ 1)
            return self.panel_of_b(panel, start, depth, unpacked & whole, pending, lone)

        return panel_of_b

    def is_missing(self, start: Index, kept: SimdExpr) -> SimdExpr:
        """True (in the kernel) if the block of B that begins at `start` must be packed; it counts as packed from now
        on if it is kept."""
        f = self.f
        block = (self.operand * self.n + self.column) * maximum(self.k, 1) + start
        known = SimdExpr(f, f.load(self.known, typ=I64))
        f.store(kept.where(block, -1).value, self.known)
        return (kept & known.equals(block)) ^ 1

    def look_ahead(self, row: Index, step: Index, start: Index, panel: Index) -> None:
        """Ask for a part of the panel of A that comes `step` rows after, where not all rows are packed; beyond the last
        one nothing happens."""
        f = self.f
        if self.parts.ahead is not None:
            source = self.element_address(self.a, self.a_strides, self.batch, row + step, start)
            with when(f, (panel < DEPTH // PREFETCH_COLUMNS) & (self.few ^ 1)):
                self.parts.ahead.invoke(
                    f, source, self.a_strides[1], self.a_strides[2], panel * PREFETCH_COLUMNS
                )

    def sheets_of_b(
        self, start: Index, depth: Index, unpacked: SimdExpr, missing: SimdExpr
    ) -> Index:
        """Pack the whole panels of the unit at once, if columns are contiguous; returns their number."""
        f, spec = self.f, self.spec
        if self.parts.sheet is None:
            return number(f, 0)
        useful = self.b_strides[2].equals(1) & (unpacked ^ 1)
        count = useful.where(quotient(self.columns, spec.columns), 0)
        with when(f, missing & (count > 0)):
            source = self.element_address(self.b, self.b_strides, self.batch, start, self.column)
            self.parts.sheet.invoke(
                f, source, self.b_strides[1], depth, count, self.packed_b,
                number(f, spec.b_stride), number(f, spec.depth * spec.b_stride),
            )  # fmt: skip
        return count

    def turned_panel(
        self, transposed: LocalFunction, panel: Index, start: Index, depth: Index, whole: SimdExpr,
        out: Value, out_stride: Index, carry: SimdExpr,
    ) -> None:  # fmt: skip
        """A panel whose B is contiguous along k: whole vectors of k are read in place, the rest is packed."""
        f, spec = self.f, self.spec
        column = self.column + panel * spec.columns
        fits = whole & self.b_strides[1].equals(1)
        read = fits.where(depth & -spec.lanes, 0)
        with when(f, read > 0):
            source = self.element_address(self.b, self.b_strides, self.batch, start, column)
            transposed.invoke(
                f, self.packed_a, source, self.b_strides[2], read, out, out_stride, carry
            )
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
        self, panel: Index, start: Index, depth: Index, unpacked: SimdExpr, pending: SimdExpr,
        lone: SimdExpr,
    ) -> tuple[Value, Index]:  # fmt: skip
        """(address, stride) of a panel, packed if it is pending."""
        f, spec = self.f, self.spec
        column = panel * spec.columns
        source = self.element_address(
            self.b, self.b_strides, self.batch, start, self.column + column
        )
        slot = lone.where(number(f, 0), panel * (spec.depth * spec.b_stride))
        packed = address(f, self.packed_b, slot, self.element)
        with when(f, pending & (unpacked ^ 1)):
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
