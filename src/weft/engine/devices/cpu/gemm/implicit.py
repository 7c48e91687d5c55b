"""Implicit GEMM: products whose operands have several strided dimensions per axis, as in convolution without its
patches in memory.

C[m, n] = sum over k of A[m, k] * B[k, n], where m, n and k each walk up to four strided dimensions of the operands:
the channels and the window of an image on k, its examples and positions on n. Panels are packed from the elements in
place (`pack_runs`); the register tile, the chains and so every bit are those of the other kernels. Units with the same
columns follow each other over all matrices of the batch, so that what describes columns is made once for them.

Arguments: M, N, K; the matrices of a batch and their strides in A, B and C; the stride of C along m; the axes m (size,
A, -), n (size, B, C), k (size, A, B), each outermost dimension first; how A is read along k (0 where all of it is
contiguous, else the step of its runs, 1, or -1 backwards), whether B is packed along k (else along n), and the step of
that.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from llvmlite import ir

from weft.engine.devices.cpu.elementary.expressions import SimdExpr
from weft.engine.devices.cpu.gemm.code import (
    Index,
    address,
    alternatives,
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
from weft.engine.devices.cpu.gemm.driver import maximum
from weft.engine.devices.cpu.gemm.microkernel import Straight, height_of_tiles, row_panel
from weft.engine.devices.cpu.gemm.output import fold
from weft.engine.devices.cpu.gemm.pack_runs import (
    DIMENSIONS,
    GROUP,
    Copy,
    LineCopy,
    Offsets,
    Runs,
    Spread,
    Turn,
    record_size,
    walk,
)
from weft.engine.devices.cpu.gemm.spec import Spec, parse
from weft.engine.devices.cpu.llvm.builder import I64, POINTER, Builder, Value, integer
from weft.engine.devices.cpu.llvm.target import Target
from weft.engine.kernels.reduction_order import PRODUCT_CHUNK

HEAD = 8  # arguments before the axes
AXIS = 3 * DIMENSIONS
ROWS = 294  # of C that share packed panels of A: a quarter of the second cache
DEPTH = 192  # elements of K in one block: a panel of B and one of A fit into the first cache


@dataclass(frozen=True)
class AxesSpec(Spec):
    """The constants of such a kernel."""

    @property
    def streams(self) -> bool:
        return False

    @property
    def depth(self) -> int:
        return DEPTH

    @property
    def group_rows(self) -> int:
        return self.rows * max(1, ROWS // self.rows)


def parse_axes(dtype: str, variant: str, target: Target) -> AxesSpec:
    """The record behind a variant's name, such as tile14x2 or exact1x8."""
    spec = parse(dtype, variant, target)
    return AxesSpec(**{each.name: getattr(spec, each.name) for each in fields(spec) if each.init})


class ImplicitParts:
    """The functions that a kernel calls."""

    def __init__(self, module: ir.Module, name: str, spec: Spec) -> None:
        self.rows, self.all = row_panel(module, f"{name}.tile", spec, Straight)
        self.fold = fold(module, f"{name}.fold", spec)
        self.offsets = Offsets(module, f"{name}.offsets").build()
        self.runs = Runs(module, f"{name}.runs", spec).build()
        self.copy = Copy(module, f"{name}.copy", spec).build()
        self.turn = Turn(module, f"{name}.turn", spec).build()
        self.line = LineCopy(module, f"{name}.line", spec).build()
        self.spread = Spread(module, f"{name}.spread", spec).build()
        self.all += [self.fold, self.offsets, self.runs]
        self.all += [self.copy, self.turn, self.line, self.spread]


class GatherTable:
    """Offsets of a stretch of an axis in two operands, and the runs of each of its vectors in one of them or both."""

    def __init__(self, driver: AxesDriver, axis: int, length: int) -> None:
        self.driver, self.f, self.spec = driver, driver.f, driver.spec
        self.axis = address(driver.f, driver.words, HEAD + axis * AXIS, I64)
        self.offsets = [
            buffer(driver.f, I64, length + max(driver.spec.lanes, GROUP)) for _ in range(2)
        ]
        self.size = record_size(driver.spec.lanes)
        vectors = length // driver.spec.lanes
        self.records = [buffer(driver.f, I64, vectors * self.size) for _ in range(2)]

    def fill(self, start: Index, count: Index) -> None:
        self.driver.parts.offsets.invoke(self.f, self.axis, start, count, *self.offsets)

    def find_runs(self, operand: int, count: Index, step: Index | int) -> None:
        by = step if isinstance(step, SimdExpr) else number(self.f, step)
        with loop(self.f, count, self.spec.lanes) as lane:
            self.driver.parts.runs.invoke(
                self.f, self.at(operand, lane), minimum(count - lane, self.spec.lanes), by,
                self.record(operand, quotient(lane, self.spec.lanes)),
            )  # fmt: skip

    def at(self, operand: int, index: Index) -> Value:
        return address(self.f, self.offsets[operand], index, I64)

    def record(self, operand: int, vector: Index) -> Value:
        return address(self.f, self.records[operand], vector * self.size, I64)

    def offset(self, operand: int, index: Index) -> Index:
        return SimdExpr(self.f, self.f.load(self.at(operand, index), typ=I64))


class AxesDriver:
    """Writes the kernel."""

    def __init__(self, module: ir.Module, name: str, spec: AxesSpec) -> None:
        self.spec, self.element = spec, spec.number.compute
        self.parts = ImplicitParts(module, name, spec)
        self.f = f = Builder(module, name)
        self.words = f.arguments["arguments"]
        self.line = spec.width  # of the buffers
        self.packed_a = buffer(f, self.element, spec.group_rows * spec.a_stride)
        self.packed_b = buffer(f, self.element, spec.depth * spec.columns)
        self.chain = buffer(f, self.element, spec.group_rows * self.line)
        self.total = buffer(f, self.element, spec.group_rows * self.line)
        self.along_m = GatherTable(self, 0, spec.group_rows)
        self.along_n = GatherTable(self, 1, spec.width)
        self.along_k = GatherTable(self, 2, PRODUCT_CHUNK)
        self.dense = buffer(f, I64, spec.width // spec.columns)
        self.plain = buffer(f, I64, spec.width // spec.columns)
        self.known = [buffer(f, I64, 1) for _ in range(2)]  # the column and the k of the tables
        self.places = [buffer(f, I64, spec.depth), buffer(f, I64, spec.columns)]

    def build(self) -> list[Builder]:
        self.read_arguments()
        for cell in self.known:
            self.f.store(integer(-1), cell)
        self.fill_places()
        self.walk_units()
        self.f.ret_void()
        return [*self.parts.all, self.f]

    def fill_places(self) -> None:
        """Fill the tables of offsets of each k and each column of a packed panel."""
        f, spec = self.f, self.spec
        lengths, steps = (spec.depth, spec.columns), (spec.columns, 1)
        for table, length, step in zip(self.places, lengths, steps, strict=True):
            with loop(f, number(f, length)) as i:
                f.store((i * step).value, address(f, table, i, I64))

    def word(self, base: Value, index: Index | int) -> Index:
        return SimdExpr(self.f, self.f.load(address(self.f, base, index, I64), typ=I64))

    def read_arguments(self) -> None:
        f = self.f
        self.bases = [
            f.load(address(f, f.arguments["pointers"], i, POINTER), typ=POINTER) for i in range(3)
        ]
        head = [self.word(self.words, i) for i in range(HEAD)]
        self.m, self.n, self.k, self.batch = head[:4]
        self.batch_strides, self.c_row = head[4:7], head[7]
        self.a_step, self.b_along, self.b_step = (
            self.word(self.words, HEAD + 3 * AXIS + i) for i in range(3)
        )

    def walk_units(self) -> None:
        """Runs of units of the same matrix and columns. The columns of a single matrix come in narrow units: those that
        follow each other with all their rows are walked as one."""
        f, spec = self.f, self.spec
        begin, end = SimdExpr(f, f.arguments["begin"]), SimdExpr(f, f.arguments["end"])
        row_units = maximum(ceiling(self.m, spec.unit_rows), 1)
        single = self.batch.equals(1)
        unit_columns = single.where(number(f, spec.narrow), spec.width)
        most = single.where(number(f, spec.width // spec.narrow), 1)

        def run(units: Index, carry: list[Index]) -> list[Index]:
            """From unit `begin + units` on."""
            start = begin + units
            before = start - remainder(start, row_units)
            low = (start - before) * spec.unit_rows
            count = maximum(minimum(quotient(end - start, row_units), most), 1)
            stop = minimum(end, low.equals(0).where(before + count * row_units, before + row_units))
            high = minimum(minimum(stop - before, row_units) * spec.unit_rows, self.m)
            number_of_run = quotient(before, row_units)
            self.enter_matrix(remainder(number_of_run, self.batch))
            column = quotient(number_of_run, self.batch) * unit_columns
            columns = maximum(quotient(stop - before, row_units), 1) * unit_columns
            self.set_columns(column, columns)
            self.run(low, high)
            return [stop - begin]

        walk(f, end - begin, [], run)

    def enter_matrix(self, matrix: Index) -> None:
        """Set the addresses of A, B and C for one matrix of the batch."""
        self.a, self.b, self.c = (
            address(self.f, base, matrix * stride, self.element)
            for base, stride in zip(self.bases, self.batch_strides, strict=True)
        )

    def set_columns(self, column: Index, most: Index) -> None:
        """The tables of `most` columns from here on."""
        f, spec, table = self.f, self.spec, self.along_n
        self.columns = minimum(self.n - column, most)
        self.panels = ceiling(self.columns, spec.columns)
        with when(f, self.word(self.known[0], 0).equals(column) ^ 1):
            f.store(column.value, self.known[0])
            table.fill(column, self.columns)
            with when(f, self.b_along.equals(0)):
                table.find_runs(0, self.columns, self.b_step)
            table.find_runs(1, self.columns, 1)
            with loop(f, self.panels) as panel:
                self.mark_dense(panel)
                self.mark_plain(panel)

    def mark_dense(self, panel: Index) -> None:
        """Note in a table whether a panel is whole, and its columns contiguous in C."""
        f, columns = self.f, self.spec.columns
        place, start = address(f, self.dense, panel, I64), panel * columns
        whole = start + columns <= self.columns
        f.store(f.zext(whole.value, I64), place)
        with when(f, whole), loop(f, number(f, columns), start=1) as column:
            step = self.along_n.offset(1, start + column) - self.along_n.offset(
                1, start + column - 1
            )
            with when(f, step.equals(1) ^ 1):
                f.store(integer(0), place)

    def mark_plain(self, panel: Index) -> None:
        """Note in a table whether a panel consists of whole vectors that are contiguous in B."""
        f, spec = self.f, self.spec
        place, start = address(f, self.plain, panel, I64), panel * spec.columns
        whole = (start + spec.columns <= self.columns) & self.b_along.equals(0)
        whole = whole & self.b_step.equals(1)
        f.store(f.zext(whole.value, I64), place)
        with when(f, whole), loop(f, number(f, spec.vectors)) as v:
            record = self.along_n.record(0, quotient(start, spec.lanes) + v)
            mask = self.word(record, 2)
            with when(f, mask.equals((1 << spec.lanes) - 1) ^ 1):
                f.store(integer(0), place)

    def run(self, low: Index, high: Index) -> None:
        """Groups of rows, as equal as tiles allow."""
        f, spec = self.f, self.spec
        self.short = self.k <= PRODUCT_CHUNK
        groups = maximum(ceiling(high - low, spec.group_rows), 1)
        tiles = ceiling(ceiling_by(high - low, groups), spec.rows)
        step = maximum(tiles * spec.rows, 1)
        with loop(f, high, step, start=low) as row:
            self.group(row, minimum(high - row, step))

    def direct(self, panel: Index) -> SimdExpr:
        """True (in the kernel) if the tiles of a panel keep their sums in C itself."""
        return self.short & (self.word(self.dense, panel) > 0)

    def group(self, row: Index, rows: Index) -> None:
        """All of K for some rows; K = 0 is one empty block, whose sums are zero."""
        f = self.f
        with loop(f, maximum(self.k, 1), PRODUCT_CHUNK) as chunk:
            length = minimum(self.k - chunk, PRODUCT_CHUNK)
            self.set_depth(chunk, length)
            blocks = maximum(ceiling(length, self.spec.depth), 1)
            step = maximum(ceiling(ceiling_by(length, blocks), 16) * 16, 16)
            with loop(f, maximum(length, 1), step) as start:
                self.block(row, rows, start, minimum(length - start, step))
            with when(f, self.short ^ 1):
                width = self.panels * self.spec.columns
                self.parts.fold.invoke(
                    f, self.total, self.chain, rows, width, number(f, self.line), chunk.equals(0)
                )
        with loop(f, self.panels) as panel, when(f, self.direct(panel) ^ 1):
            self.finish(panel, row, rows)

    def finish(self, panel: Index, row: Index, rows: Index) -> None:
        """Write the sums in a buffer to C."""
        f, spec = self.f, self.spec
        source = either(f, self.short, self.chain, self.total)
        start = panel * spec.columns
        stop = minimum(start + spec.columns, self.columns)
        with loop(f, rows) as i, loop(f, stop, spec.lanes, start=start) as lane:
            vector = address(f, source, i * self.line + lane, self.element)
            record = self.along_n.record(1, quotient(lane, spec.lanes))
            target = address(f, self.c, (row + i) * self.c_row, self.element)
            self.parts.spread.invoke(f, vector, record, target)

    def set_depth(self, chunk: Index, length: Index) -> None:
        """The tables of a chunk of K."""
        f, table = self.f, self.along_k
        with when(f, self.word(self.known[1], 0).equals(chunk) ^ 1):
            f.store(chunk.value, self.known[1])
            table.fill(chunk, length)
            with when(f, self.a_step.equals(0) ^ 1):
                table.find_runs(0, length, self.a_step)
            with when(f, self.b_along.equals(1)):
                table.find_runs(1, length, self.b_step)

    def block(self, row: Index, rows: Index, start: Index, depth: Index) -> None:
        """One block of K, which starts somewhere in its chunk, for some rows and all columns of the unit."""
        f = self.f
        self.pack_a(row, rows, start, depth)
        with (
            loop(f, self.panels) as panel,
            alternatives(f, self.word(self.plain, panel) > 0) as bodies,
        ):
            next(bodies)
            tables = self.along_k.at(1, start), self.along_n.at(0, panel * self.spec.columns)
            self.multiply(panel, row, rows, start, depth, self.b, *tables)
            next(bodies)
            self.pack_b(panel, start, depth)
            self.multiply(panel, row, rows, start, depth, self.packed_b, *self.places)
            next(bodies, None)

    def multiply(
        self, panel: Index, row: Index, rows: Index, start: Index, depth: Index, b: Value,
        places: Value, columns: Value,
    ) -> None:  # fmt: skip
        """All tiles of rows with a panel of B, whose elements the tables find from `b`."""
        f, spec = self.f, self.spec
        height = height_of_tiles(f, spec, rows)
        with loop(f, rows, height) as i:
            out, stride = self.place_of_tile(panel, row, i)
            leading = () if spec.exact else (minimum(rows - i, height),)
            a = address(f, self.packed_a, i * spec.a_stride, self.element)
            self.parts.rows.invoke(
                f, *leading, a, b, number(f, 0), depth, out, stride, start > 0, places, columns
            )

    def pack_a(self, row: Index, rows: Index, start: Index, depth: Index) -> None:
        """All panels of rows, line by line or by vectors along k."""
        f = self.f
        self.along_m.fill(row, rows)
        with alternatives(f, self.a_step.equals(0)) as bodies:
            next(bodies)
            first = self.along_k.offset(0, start)
            with loop(f, rows) as i:
                source = address(f, self.a, self.along_m.offset(0, i) + first, self.element)
                target = address(f, self.packed_a, i * self.spec.a_stride, self.element)
                self.parts.line.invoke(f, source, depth, target)
            next(bodies)
            self.pack_runs_of_a(rows, start, depth)
            next(bodies, None)

    def pack_runs_of_a(self, rows: Index, start: Index, depth: Index) -> None:
        f, spec, k = self.f, self.spec, self.along_k
        with loop(f, depth, spec.lanes) as lane:
            at = start + lane
            self.parts.copy.invoke(
                f, self.a, self.along_m.offsets[0], rows,
                k.record(0, quotient(at, spec.lanes)), k.at(0, at),
                minimum(depth - lane, spec.lanes), self.a_step,
                address(f, self.packed_a, lane, self.element), number(f, spec.a_stride),
            )  # fmt: skip

    def pack_b(self, panel: Index, start: Index, depth: Index) -> None:
        """The columns of a panel, by vectors along n or turned from vectors along k."""
        f, spec = self.f, self.spec
        first = panel * spec.columns
        with loop(f, minimum(self.columns - first, spec.columns), spec.lanes) as lane:
            column, place = first + lane, address(f, self.packed_b, lane, self.element)
            lanes = minimum(self.columns - column, spec.lanes)
            with alternatives(f, self.b_along.equals(0)) as bodies:
                next(bodies)
                self.pack_along_n(column, lanes, start, depth, place)
                next(bodies)
                self.pack_along_k(column, lanes, start, depth, place)
                next(bodies, None)

    def pack_along_n(
        self, column: Index, lanes: Index, start: Index, depth: Index, place: Value
    ) -> None:
        f, spec, n = self.f, self.spec, self.along_n
        self.parts.copy.invoke(
            f, self.b, self.along_k.at(1, start), depth,
            n.record(0, quotient(column, spec.lanes)), n.at(0, column), lanes, self.b_step,
            place, number(f, spec.columns),
        )  # fmt: skip

    def pack_along_k(
        self, column: Index, lanes: Index, start: Index, depth: Index, place: Value
    ) -> None:
        f, spec, k = self.f, self.spec, self.along_k
        with loop(f, depth, spec.lanes) as deep:
            at = start + deep
            self.parts.turn.invoke(
                f, self.b, self.along_n.at(0, column), lanes,
                k.record(1, quotient(at, spec.lanes)), k.at(1, at),
                minimum(depth - deep, spec.lanes), self.b_step,
                address(f, place, deep * spec.columns, self.element), number(f, spec.columns),
            )  # fmt: skip

    def place_of_tile(self, panel: Index, row: Index, i: Index) -> tuple[Value, Index]:
        """(address, row stride) of the accumulators: C itself or the buffer."""
        f = self.f
        column = panel * self.spec.columns
        held = address(f, self.chain, i * self.line + column, self.element)
        own = address(
            f, self.c, (row + i) * self.c_row + self.along_n.offset(1, column), self.element
        )
        direct = self.direct(panel)
        return either(f, direct, own, held), direct.where(self.c_row, self.line)
