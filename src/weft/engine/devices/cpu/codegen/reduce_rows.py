"""Reductions vectorized along the reduced axes: row by row, or everything to one element.

The reduced axes are walked as one flat row-major index: element i belongs to lane i mod 16 of its block of 4096. A row
of the innermost axis may therefore start in any lane; its first and last vector are partial. A full reduction writes
one state per block to scratch, which a second function folds; any other keeps its blocks' states on the stack.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir as llvm

from weft.engine.devices.cpu.codegen.evaluator import Lookup, Stage, Window, vector_lanes
from weft.engine.devices.cpu.codegen.loop_nest import LoopFrame, LoopScope
from weft.engine.devices.cpu.codegen.reduce_ops import (
    SLOT,
    KernelReductions,
    ReductionTree,
    State,
    store_state,
)
from weft.engine.devices.cpu.codegen.schedule import Scheduled
from weft.engine.devices.cpu.elementwise.emitter import Emitter
from weft.engine.devices.cpu.llvm.builder import Builder, Value, choose, counted, integer, minimum
from weft.engine.devices.cpu.llvm.simd_value import SimdValue, pieces
from weft.engine.devices.cpu.llvm.target import Target
from weft.engine.kernels import reduction_order

SHIFT = reduction_order.BLOCK.bit_length() - 1
CHAINS_AT_ONCE = 4  # blocks or rows reduced together: each is one chain of additions, which take longer than the loads
MOST_BODY_INSTRUCTIONS = 4  # instructions of a body up to which several chains pay


def partial_bytes(kernel: Scheduled) -> int:
    """Scratch for one block of a full reduction."""
    return SLOT * len(KernelReductions(kernel).elements())


class RowReduction:
    """The body of a reduction along its reduced axes."""

    def __init__(self, frame: LoopFrame, lookup: Lookup, target: Target) -> None:
        kernel = frame.kernel
        self.frame = frame
        self.builder = frame.builder
        self.stage = Stage(frame, lookup, target, "body", range(kernel.rank), reduction_order.LANES)
        self.e = self.stage.e
        self.axes = tuple(range(kernel.parallel, kernel.rank))
        self.reductions = KernelReductions(kernel)
        self.wide = self._wide(lookup, target)
        self.one = Emitter(self.builder, 1)

    def _wide(self, lookup: Lookup, target: Target) -> Stage | None:
        """The body on as many lanes as an elementwise kernel has, where those are more: several elements of each lane
        of the reduction at once, so that what waits for its own result is little."""
        kernel = self.frame.kernel
        lanes = vector_lanes(kernel, target)
        if lanes <= reduction_order.LANES or len(self.axes) > 1 or self.flies:
            return None
        return Stage(self.frame, lookup, target, "body", range(kernel.rank), lanes)

    def block(self, scope: LoopScope, number: Value, total: Value) -> State:
        """The folded state of one block of the flat reduced index."""
        b = self.builder
        start = b.shl(number, integer(SHIFT))
        stop = minimum(b, total, b.add(start, integer(reduction_order.BLOCK)))
        state = self.reductions.identity(self.e)
        if len(self.axes) == 1:
            start, state = self._wide_windows(scope, start, stop, state)
            state = self._segment(scope, start, stop, None, integer(0), state)
        else:
            state = self._segments(scope, start, stop, state)
        return self.reductions.fold(self.e, state)

    def walk(
        self,
        scope: LoopScope,
        begin: Value,
        end: Value,
        total: Value,
        take: Callable[[Value, State], None],
    ) -> None:
        """Hand over the folded states of the blocks [begin, end), in order; several whole ones are accumulated at
        once, where their elements stand on one axis."""
        b, first = self.builder, begin

        def one(number: Value, carry: list[Value]) -> list[Value]:
            take(number, self.block(scope, number, total))
            return carry

        def several(number: Value, carry: list[Value]) -> list[Value]:
            numbers = [b.add(number, integer(i)) for i in range(CHAINS_AT_ONCE)]
            for each, state in zip(numbers, self._whole_blocks(scope, numbers), strict=True):
                take(each, state)
            return carry

        if self.flies:
            whole = minimum(b, end, b.lshr(total, integer(SHIFT)))
            rounds = b.sdiv(b.sub(whole, begin), integer(CHAINS_AT_ONCE))
            rounds = b.select(b.icmp_signed("<", rounds, integer(0)), integer(0), rounds)
            first = b.add(begin, b.mul(rounds, integer(CHAINS_AT_ONCE)))
            counted(b, begin, first, CHAINS_AT_ONCE, [], several)
        counted(b, first, end, 1, [], one)

    def _whole_blocks(self, scope: LoopScope, numbers: list[Value]) -> list[State]:
        """The folded states of blocks that no row's end cuts short."""
        places = [(scope, self.builder.shl(number, integer(SHIFT))) for number in numbers]
        states = self._abreast(places, integer(reduction_order.BLOCK))
        return [self.reductions.fold(self.e, state) for state in states]

    def _abreast(self, places: list[tuple[LoopScope, Value]], length: Value) -> list[State]:
        """The states of equally many elements, a multiple of the lanes, from several places."""

        def finish(window: Window, values: dict[int, SimdValue], state: list[Value]) -> State:
            return self._accumulated(window, values, state, integer(0))

        return self.stage.abreast(places, length, self.reductions.identity(self.e), finish)

    def short_rows(self, scopes: list[LoopScope], total: Value) -> list[State]:
        """The folded states of rows of one block or less, on one axis: what fills all lanes at once, then the rest."""
        b = self.builder
        whole = b.and_(total, integer(-reduction_order.LANES))
        states = self._abreast([(scope, integer(0)) for scope in scopes], whole)
        found = []
        for scope, state in zip(scopes, states, strict=True):
            state = self._segment(scope, whole, total, None, integer(0), state)
            found.append(self.reductions.fold(self.e, state))
        return found

    @property
    def flies(self) -> bool:
        """True if several chains at once pay, and the reduced elements are on one axis."""
        return len(self.axes) == 1 and len(self.frame.kernel.body) <= MOST_BODY_INSTRUCTIONS

    def _wide_windows(
        self, scope: LoopScope, start: Value, stop: Value, state: State
    ) -> tuple[Value, State]:
        """(where the rest begins, the state) after as many elements as fill wide windows, added in order."""
        b, wide = self.builder, self.wide
        if wide is None:
            return start, state

        def finish(window: Window, values: dict[int, SimdValue], state: list[Value]) -> State:
            wanted = {item.value for item in self.reductions.items}
            parts = {number: pieces(b, values[number], reduction_order.LANES) for number in wanted}
            for place in range(wide.e.lanes // reduction_order.LANES):
                index = b.add(window.index, integer(place * reduction_order.LANES))
                part = {number: found[place] for number, found in parts.items()}
                here = Window(index, None, integer(reduction_order.LANES), full=True)
                state = self._accumulated(here, part, state, integer(0))
            return state

        length = b.and_(b.sub(stop, start), integer(-wide.e.lanes))
        places = [(wide.spread(scope, reduction_order.LANES), start)]
        return b.add(start, length), wide.abreast(places, length, state, finish)[0]

    def _segments(self, scope: LoopScope, start: Value, stop: Value, state: State) -> State:
        """A block that is made of pieces of innermost rows."""
        b, inner = self.builder, self.frame.dims[self.axes[-1]]
        first = b.udiv(start, self._positive(inner))
        last = b.udiv(b.add(stop, b.sub(inner, integer(1))), self._positive(inner))
        last = b.select(b.icmp_signed("<", start, stop), last, first)

        def row(number: Value, state: list[Value]) -> State:
            flat = b.mul(number, inner)
            low = b.sub(start, flat)
            low = b.select(b.icmp_signed("<", low, integer(0)), integer(0), low)
            high = minimum(b, inner, b.sub(stop, flat))
            here = self._row(scope, number)
            phase = b.and_(b.add(flat, low), integer(reduction_order.LANES - 1))
            return choose(
                b,
                whole,
                lambda: self._whole_segment(here, low, high, flat, state),
                lambda: self._segment(here, low, high, phase, flat, state),
            )

        whole = b.icmp_signed("==", b.and_(inner, integer(reduction_order.LANES - 1)), integer(0))
        return counted(b, first, last, 1, state, row)

    def _whole_segment(
        self, scope: LoopScope, start: Value, stop: Value, flat: Value, state: State
    ) -> State:
        """A piece of an innermost row that begins in lane 0 and fills all lanes; `flat` as for `_segment`."""
        scope = self.stage.prepared(scope)

        def finish(window: Window, values: dict[int, SimdValue], state: list[Value]) -> State:
            return self._accumulated(window, values, state, flat)

        def body(index: Value, state: list[Value]) -> State:
            return self.stage.whole(scope, index, state, finish)

        return counted(self.builder, start, stop, reduction_order.LANES, state, body)

    def _positive(self, extent: Value) -> Value:
        b = self.builder
        return b.select(b.icmp_signed("==", extent, integer(0)), integer(1), extent)

    def _row(self, scope: LoopScope, number: Value) -> LoopScope:
        """The scope of one innermost row, by its number among the reduced ones."""
        b, indexes, rest = self.builder, [], number
        for axis in reversed(self.axes[1:-1]):
            quotient = b.udiv(rest, self.frame.dims[axis])
            indexes.append((axis, b.sub(rest, b.mul(quotient, self.frame.dims[axis]))))
            rest = quotient
        for axis, index in [(self.axes[0], rest), *reversed(indexes)]:
            scope = self.frame.enter(scope, axis, index)
            self.stage.entered(scope, axis)
        return scope

    def _segment(
        self,
        scope: LoopScope,
        start: Value,
        stop: Value,
        phase: Value | None,
        flat: Value,
        state: State,
    ) -> State:
        """A piece of one innermost row, accumulated; `flat` is the flat index of its element 0."""
        b = self.builder

        def finish(window: Window, values: dict[int, SimdValue], state: list[Value]) -> State:
            combined = self._accumulated(window, values, state, flat)
            if window.full:
                return combined
            mask = self.stage.memory.mask(window.low, window.high)
            return [b.select(mask, x, y) for x, y in zip(combined, state, strict=True)]

        return self.stage.windows(scope, start, stop, state, finish, phase, masked=True)

    def _accumulated(
        self, window: Window, values: dict[int, SimdValue], state: list[Value], flat: Value
    ) -> State:
        """A state and the values of a window, in all lanes; `flat` as for `_segment`."""
        b, e, indexes = self.builder, self.e, None
        if self.reductions.indexed:
            base = b.broadcast(b.add(window.index, flat), e.lanes)
            indexes = b.add(base, self.stage.memory.lane_numbers())
        return self.reductions.combine(e, state, self.reductions.lift(e, values, indexes))


def block_count(b: Builder, total: Value) -> Value:
    """The number of blocks of `total` elements; 1 for none, which leaves the identity."""
    blocks = _blocks(b, total)
    return b.select(b.icmp_signed("==", blocks, integer(0)), integer(1), blocks)


def _blocks(b: Builder, total: Value) -> Value:
    return b.lshr(b.add(total, integer(reduction_order.BLOCK - 1)), integer(SHIFT))


def lower(frame: LoopFrame, lookup: Lookup, target: Target) -> None:
    """Each row of the parallel axes to one element."""
    b, kernel = frame.builder, frame.kernel
    rows = RowReduction(frame, lookup, target)
    epilogue = Stage(frame, lookup, target, "epilogue", (), 1)
    tree = ReductionTree(rows.reductions, rows.one)
    total = frame.extent(rows.axes)
    blocks = block_count(b, total)
    root, entered = frame.root(), rows.stage.entered
    rows.stage.uniform(root, -1)

    def row(scope: LoopScope) -> None:
        rows.walk(scope, integer(0), blocks, total, tree.push)
        finish(rows.reductions, epilogue, scope, tree.result(blocks))

    def done(scope: LoopScope, state: State) -> None:
        finish(rows.reductions, epilogue, scope, state)

    if rows.flies and kernel.parallel:
        frame.nest(root, range(kernel.parallel - 1), _line(rows, total, row, done), entered)
    else:
        frame.nest(root, range(kernel.parallel), row, entered)


def _line(
    rows: RowReduction,
    total: Value,
    row: Callable[[LoopScope], None],
    done: Callable[[LoopScope, State], None],
) -> Callable[[LoopScope], None]:
    """The function that runs all rows along the innermost parallel axis, several short ones at a time, and hands them
    to `done`."""
    frame, b, axis = rows.frame, rows.builder, rows.frame.kernel.parallel - 1

    def line(scope: LoopScope) -> None:
        start, stop = (frame.begin, frame.end) if axis == 0 else (integer(0), frame.dims[axis])
        rounds = b.sdiv(b.sub(stop, start), integer(CHAINS_AT_ONCE))
        rounds = b.select(
            b.icmp_signed("<=", total, integer(reduction_order.BLOCK)), rounds, integer(0)
        )
        first = b.add(start, b.mul(rounds, integer(CHAINS_AT_ONCE)))

        def entered(index: Value) -> LoopScope:
            here = frame.enter(scope, axis, index)
            rows.stage.entered(here, axis)
            return here

        def several(index: Value, carry: list[Value]) -> list[Value]:
            scopes = [entered(b.add(index, integer(i))) for i in range(CHAINS_AT_ONCE)]
            for here, state in zip(scopes, rows.short_rows(scopes, total), strict=True):
                done(here, state)
            return carry

        def one(index: Value, carry: list[Value]) -> list[Value]:
            row(entered(index))
            return carry

        counted(b, start, first, CHAINS_AT_ONCE, [], several)
        counted(b, first, stop, 1, [], one)

    return line


def finish(reductions: KernelReductions, epilogue: Stage, scope: LoopScope, state: State) -> None:
    """The epilogue of a row whose reductions have come to this state."""
    here = scope.inner()
    here.values = dict(reductions.finished(epilogue.e, state))
    epilogue.scalar(here)


def lower_full(
    kernel: Scheduled, lookup: Lookup, target: Target, module: llvm.Module, name: str
) -> list[Builder]:
    """Two functions: blocks to scratch, and scratch to the result."""
    first = Builder(module, name)
    frame = LoopFrame(kernel, first)
    rows = RowReduction(frame, lookup, target)
    scratch, total, root = frame.pointer("scratch"), frame.extent(rows.axes), frame.root()
    rows.stage.uniform(root, -1)
    tree = ReductionTree(rows.reductions, rows.one)

    def keep(number: Value, state: State) -> None:
        store_state(first, state, tree.places(scratch, number))

    rows.walk(root, frame.begin, frame.end, total, keep)
    first.ret_void()
    return [first, _final(kernel, lookup, target, Builder(module, f"{name}_final"))]


def _final(kernel: Scheduled, lookup: Lookup, target: Target, b: Builder) -> Builder:
    frame = LoopFrame(kernel, b)
    epilogue = Stage(frame, lookup, target, "epilogue", (), 1)
    reductions = KernelReductions(kernel)
    tree = ReductionTree(reductions, epilogue.e)
    scratch, blocks = frame.pointer("scratch"), _blocks(b, frame.extent(range(kernel.rank)))

    def push(number: Value, carry: list[Value]) -> list[Value]:
        tree.push(number, tree.load(scratch, number))
        return carry

    counted(b, integer(0), blocks, 1, [], push)
    identity = reductions.identity(epilogue.e)
    some = b.icmp_signed(">", blocks, integer(0))
    state = choose(b, some, lambda: tree.result(blocks), lambda: identity)
    finish(reductions, epilogue, frame.root(), state)
    b.ret_void()
    return b
