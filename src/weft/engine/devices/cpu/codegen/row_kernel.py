"""Row kernels: several loop kernels over the same rows, run row by row (persistent reductions).

A softmax is a maximum over a row, then a sum over the same row, then a value for each element: three phases. It takes
a `RowKernel` (`weft.engine.kernels.row_ir`); values that a phase spills for later ones, one element or the whole row,
are on the stack, so that a row is read from memory once and stays in the nearest cache. It writes a module with one
function. Each phase is the kernel that it would be alone, and gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from llvmlite import ir as llvm

from weft.engine.devices.cpu import limits
from weft.engine.devices.cpu.codegen import schedule
from weft.engine.devices.cpu.codegen.evaluator import Lookup, Stage, vector_lanes
from weft.engine.devices.cpu.codegen.loop_nest import LoopFrame, LoopScope
from weft.engine.devices.cpu.codegen.reduce_columns_fused import ColumnSums
from weft.engine.devices.cpu.codegen.reduce_ops import ReductionTree
from weft.engine.devices.cpu.codegen.reduce_rows import RowReduction, block_count, finish
from weft.engine.devices.cpu.codegen.row_prefetch import RowPrefetch
from weft.engine.devices.cpu.codegen.schedule import scheduled
from weft.engine.devices.cpu.llvm.builder import (
    I64,
    Builder,
    Value,
    counted,
    integer,
    minimum,
    module_text,
)
from weft.engine.devices.cpu.llvm.target import Target, host
from weft.engine.kernels import loop_ir, reduction_order
from weft.engine.kernels.row_ir import Local, RowKernel, verify

ELEMENTS_PER_GRAIN = 1024
ROW_GAP_BYTES = 128  # bytes between rows in local memory
UNITS_IN_TURN = 4  # units whose rows are taken in turns


def bytes_of(local: Local) -> int:
    """The bytes of local memory reserved: for whole rows, of at most LONGEST_ROW elements."""
    row = loop_ir.SIZES[local.dtype] * limits.LONGEST_ROW + ROW_GAP_BYTES
    return rows_of(local) * row if local.whole else loop_ir.SIZES[local.dtype]


def rows_of(local: Local) -> int:
    """The number of rows, or elements, that it holds."""
    return UNITS_IN_TURN if local.added else 1


def pointer_counts(kernel: RowKernel) -> list[int]:
    """The number of pointers of each phase."""
    return [len(schedule.pointers(scheduled(phase))) for phase in kernel.phases]


def argument_counts(kernel: RowKernel) -> list[int]:
    """The number of arguments of each phase after the extents, which come before all."""
    return [len(schedule.arguments(scheduled(phase))) - kernel.rank for phase in kernel.phases]


def lower(kernel: RowKernel, lookup: Lookup, name: str, target: Target | None = None) -> str:
    """The LLVM module of a row kernel: function `name`, and `name`_final where there are sums over rows."""
    verify(kernel)
    target = target or host()
    module = llvm.Module(name)
    b = Builder(module, name)
    memory = _reserve(b, kernel)
    phases: list[_Phase] = []
    pointers = arguments = 0
    counts = zip(pointer_counts(kernel), argument_counts(kernel), strict=True)
    for phase, (more_pointers, more_arguments) in zip(kernel.phases, counts, strict=True):
        frame = LoopFrame(scheduled(phase), b, (pointers, arguments), memory)
        phases.append(_Phase(frame, lookup, target))
        pointers += more_pointers
        arguments += more_arguments
    scopes = [phase.root() for phase in phases]
    if not kernel.sums:
        _rows(phases, scopes, 0)
        b.ret_void()
        return module_text(module, [b], target.register_bits)
    dtypes = [kernel.locals[number].dtype for number in kernel.sums]
    sums = ColumnSums(b, target, dtypes, pointers, kernel.rank - 1, ROW_GAP_BYTES)
    ahead = RowPrefetch([phase.frame for phase in phases], scopes)
    _lanes(phases, scopes, ahead, sums, {number: memory[number] for number in kernel.sums})
    b.ret_void()
    last = Builder(module, f"{name}_final")
    sums = ColumnSums(last, target, dtypes, pointers, kernel.rank - 1)
    sums.fold(last.arguments["begin"], last.arguments["end"])
    last.ret_void()
    return module_text(module, [b, last], target.register_bits)


def _reserve(b: Builder, kernel: RowKernel) -> list[Value]:
    """Local memory. Rows follow each other as closely as they are long, so that they share the sets of the nearest
    cache evenly; a few elements between them keep what is read apart from what was just written."""
    rows = b.alloca(f"[{sum(bytes_of(item) for item in kernel.locals if item.whole)} x i8]")
    place = b.gep(b.arguments["arguments"], [integer(8 * (kernel.rank - 1))])
    length = b.load(place, typ=I64)
    found, elements = (
        [],
        b.and_(b.add(length, integer(reduction_order.LANES - 1)), integer(-reduction_order.LANES)),
    )
    for item in kernel.locals:
        if not item.whole:
            found.append(b.alloca(f"[{bytes_of(item)} x i8]"))
            continue
        found.append(rows)
        size = b.add(b.mul(elements, integer(loop_ir.SIZES[item.dtype])), integer(ROW_GAP_BYTES))
        rows = b.gep(rows, [b.mul(size, integer(rows_of(item)))])
    return found


class _Phase:
    """One phase in the loops over rows."""

    def __init__(self, frame: LoopFrame, lookup: Lookup, target: Target) -> None:
        kernel = frame.kernel
        self.frame = frame
        self.row_axis = kernel.rank - 1
        if kernel.reduces:
            self.rows = RowReduction(frame, lookup, target)
            self.stage = self.rows.stage
            self.after = Stage(frame, lookup, target, "epilogue", (), 1)
            self.tree = ReductionTree(self.rows.reductions, self.rows.one)
            self.blocks = block_count(frame.builder, frame.dims[self.row_axis])
        else:
            lanes = vector_lanes(kernel, target)
            self.stage = Stage(frame, lookup, target, "body", range(kernel.rank), lanes)

    def root(self) -> LoopScope:
        """The scope outside all loops."""
        scope = self.frame.root()
        self.stage.uniform(scope, -1)
        return scope

    def entered(self, scope: LoopScope, axis: int, index: Value) -> LoopScope:
        """The scope at one index of a parallel axis; what is the same for a row waits for the row."""
        inner = self.frame.enter(scope, axis, index)
        if axis < self.row_axis - 1:
            self.stage.uniform(inner, axis)
        return inner

    def run(self, scope: LoopScope) -> None:
        """One row."""
        self.stage.uniform(scope, self.row_axis - 1)
        length = self.frame.dims[self.row_axis]
        if not self.frame.kernel.reduces:
            self.stage.windows(scope, integer(0), length, [])
            return

        def block(number: Value, carry: list[Value]) -> list[Value]:
            self.tree.push(number, self.rows.block(scope, number, length))
            return carry

        counted(self.frame.builder, integer(0), self.blocks, 1, [], block)
        finish(self.rows.reductions, self.after, scope, self.tree.result(self.blocks))


def _rows(phases: list[_Phase], scopes: list[LoopScope], axis: int) -> None:
    """Loops over the parallel axes around the phases; axis 0 runs over the launch's units."""
    frame = phases[0].frame
    if axis == phases[0].row_axis:
        for phase, scope in zip(phases, scopes, strict=True):
            phase.run(scope)
        return

    def body(index: Value, carry: list[Value]) -> list[Value]:
        pairs = zip(phases, scopes, strict=True)
        _rows(phases, [phase.entered(scope, axis, index) for phase, scope in pairs], axis + 1)
        return carry

    start, stop = (frame.begin, frame.end) if axis == 0 else (integer(0), frame.dims[axis])
    counted(frame.builder, start, stop, 1, [], body)


def _lanes(
    phases: list[_Phase],
    scopes: list[LoopScope],
    ahead: RowPrefetch,
    sums: ColumnSums,
    memory: dict[int, Value],
) -> None:
    """The loop over the rows of the launch's units around the phases; the rows of a few neighbouring units are taken
    in turns, in the order of memory. Then come their sums."""
    frame = phases[0].frame
    b, axes = frame.builder, range(phases[0].row_axis)
    count = frame.extent(axes)

    def some(first: Value, carry: list[Value]) -> list[Value]:
        lanes = minimum(b, integer(UNITS_IN_TURN), b.sub(frame.end, first))
        sums.clear(memory.values(), lanes)

        def block(number: Value, carry: list[Value]) -> list[Value]:
            start = b.add(number, first)
            stop = minimum(b, count, b.add(start, lanes))

            def row(number: Value, carry: list[Value]) -> list[Value]:
                at = {
                    local: sums.row(order, place, b.sub(number, start))
                    for order, (local, place) in enumerate(memory.items())
                }
                moved = [_moved(p, s, at) for p, s in zip(phases, scopes, strict=True)]
                further = b.add(number, integer(1))
                last = b.icmp_signed("==", further, stop)
                further = b.select(last, b.add(start, integer(reduction_order.LANES)), further)
                _one_row(phases, moved, ahead, number, further)
                return carry

            counted(b, start, stop, 1, [], row)
            return carry

        counted(b, integer(0), count, reduction_order.LANES, [], block)
        sums.keep(memory.values(), first, lanes)
        return carry

    counted(b, frame.begin, frame.end, UNITS_IN_TURN, [], some)


def _moved(phase: _Phase, scope: LoopScope, at: dict[int, Value]) -> LoopScope:
    """A scope in which some local memory has other addresses."""
    kernel, inner = phase.frame.kernel, scope.inner()
    locals_of: dict[str, list[int]] = {
        "operand": [operand.local for operand in kernel.operands],
        "store": [store.local for store in kernel.stores],
    }
    for kind, numbers in locals_of.items():
        for place, number in enumerate(numbers):
            if number in at:
                inner.pointers[kind, place] = at[number]
    return inner


def _one_row(
    phases: list[_Phase], scopes: list[LoopScope], ahead: RowPrefetch, number: Value, further: Value
) -> None:
    """The row of this number among all, before the one of number `further`."""
    frame = phases[0].frame
    for axis, index in enumerate(_indexes(frame, number)):
        pairs = zip(phases, scopes, strict=True)
        scopes = [phase.entered(scope, axis, index) for phase, scope in pairs]
    following = _indexes(frame, further)
    for order, (phase, scope) in enumerate(zip(phases, scopes, strict=True)):
        ahead.ask(following, order, len(phases))
        phase.run(scope)


def _indexes(frame: LoopFrame, number: Value) -> list[Value]:
    """The indexes on the parallel axes of a row, by its number among all."""
    b, rest, indexes = frame.builder, number, []
    for axis in range(frame.kernel.rank - 2, 0, -1):
        quotient = b.udiv(rest, frame.dims[axis])
        indexes.append(b.sub(rest, b.mul(quotient, frame.dims[axis])))
        rest = quotient
    return [rest, *reversed(indexes)]


def launch_shape(kernel: RowKernel, dims: Sequence[int]) -> tuple[int, int]:
    """Units of work, and the grain at which they may be split."""
    if kernel.sums:
        return reduction_order.LANES, 1
    return dims[0], max(1, ELEMENTS_PER_GRAIN // max(1, prod(dims[1:])))
