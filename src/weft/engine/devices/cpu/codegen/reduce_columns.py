"""Reductions vectorized across the innermost parallel axis, as a sum over a matrix's rows.

Every column keeps the sixteen partial results of its block, so the element that meets another is the same as in
`reduce_rows`; they are in memory that stays in the cache, for a strip of columns at a time, wide enough for rows to be
read in long pieces. Several elements of one lane are added to its partial result at once, in order; a kernel for few
columns has those of all lanes in registers. Blocks then fold by the same tree, strip by strip.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir as llvm

from weft.engine.devices.cpu.codegen.evaluator import Finish, Lookup, Stage, Window
from weft.engine.devices.cpu.codegen.loop_nest import LoopFrame, LoopScope
from weft.engine.devices.cpu.codegen.reduce_ops import (
    KernelReductions,
    State,
    load_state,
    store_state,
)
from weft.engine.devices.cpu.codegen.reduce_rows import MOST_BODY_INSTRUCTIONS, SHIFT
from weft.engine.devices.cpu.llvm.builder import (
    FIRST_CACHE,
    I1,
    I64,
    Builder,
    Value,
    ask_for,
    choose,
    counted,
    integer,
    minimum,
)
from weft.engine.devices.cpu.llvm.simd_value import SimdValue
from weft.engine.devices.cpu.llvm.target import Target
from weft.engine.kernels import loop_ir, reduction_order

STRIP = 2048  # columns of one sum of four bytes: their partial results stay in the second cache
PAD = 64  # columns between rows of partial results, which would else crowd the same cache sets
LEVELS = 32  # blocks of blocks: enough for 2**44 elements
WIDE_ROW_VECTORS = (
    4  # whole vectors of a row from which rows far apart are read as quickly as consecutive ones
)
PARTIAL_ROW_VECTORS = (
    8  # whole vectors of a row from which a partial one, which is read by itself, costs little
)
ELEMENTS_AT_ONCE = (
    4  # elements of one lane added at once, for which its partial result is read and written once
)
PREFETCH_ELEMENTS = 128  # elements by which reads are prefetched
CHUNK_ELEMENTS = 1024  # elements of few columns for which all partial results of a window are read and written once


class _Strip:
    """States of a strip of columns: `rows` rows of them, in memory."""

    def __init__(self, b: Builder, reductions: KernelReductions, rows: int, width: int) -> None:
        self.builder = b
        self.elements = reductions.elements()
        self.pitch = width + PAD
        self.arrays = [
            b.alloca(f"[{rows * self.pitch * bytes_of(element)} x i8]") for element in self.elements
        ]

    def places(self, row: Value, column: Value) -> list[Value]:
        """The addresses of the states of a row from a column on."""
        b = self.builder
        index = b.add(b.mul(row, integer(self.pitch)), column)
        return [
            b.gep(array, [b.mul(index, integer(bytes_of(element)))])
            for array, element in zip(self.arrays, self.elements, strict=True)
        ]

    def load(self, row: Value, column: Value, lanes: int) -> State:
        """The states of `lanes` columns."""
        return load_state(self.builder, self.elements, lanes, self.places(row, column))

    def store(self, state: State, row: Value, column: Value) -> None:
        """Write the states of a vector of columns."""
        store_state(self.builder, state, self.places(row, column))


def bytes_of(element: object) -> int:
    """Bytes of one element of a state in memory."""
    if element == I1:
        return 1
    if isinstance(element, llvm.IntType):
        return int(element.width) // 8
    return {"float": 4, "double": 8}[str(element)]


class Columns:
    """The lowering of one kernel."""

    def __init__(self, frame: LoopFrame, lookup: Lookup, target: Target, lanes: int) -> None:
        kernel = frame.kernel
        self.frame = frame
        self.builder = frame.builder
        self.lanes = lanes
        self.axis = kernel.axis
        self.outer = tuple(range(self.axis))
        self.axes = tuple(range(kernel.parallel, kernel.rank))
        order = (*self.outer, *self.axes, self.axis)
        self.body = Stage(frame, lookup, target, "body", order, lanes)
        self.after = Stage(frame, lookup, target, "epilogue", (*self.outer, self.axis), lanes)
        self.narrow = self._narrow(lookup, target)
        self.e = self.body.e
        self.reductions = KernelReductions(kernel)
        column = sum(bytes_of(element) for element in self.reductions.elements())
        self.width = max(1, STRIP * 4 // max(column, 4) // lanes) * lanes
        self.partial = _Strip(self.builder, self.reductions, reduction_order.LANES, self.width)
        self.stack = _Strip(self.builder, self.reductions, LEVELS, self.width)
        self.total = frame.extent(self.axes)
        rounded = self.builder.add(self.total, integer(reduction_order.BLOCK - 1))
        self.blocks = self.builder.lshr(rounded, integer(SHIFT))

    def _narrow(self, lookup: Lookup, target: Target) -> Stage | None:
        """The body on one register for few columns: the partial results of all lanes fit the registers. None for bodies
        that are long, and where a partial window would be read element by element."""
        kernel, lanes = self.frame.kernel, self.lanes // 2
        if not kernel.narrow or len(kernel.body) > MOST_BODY_INSTRUCTIONS or lanes < 2:
            return None
        for operand in kernel.operands:
            if operand.virtual or operand.index or operand.strides[self.axis] == "s":
                return None
            if loop_ir.SIZES[operand.dtype] not in target.masked:
                return None
        return Stage(self.frame, lookup, target, "body", self.body.order, lanes)

    def lower(self) -> None:
        """Loops over the outer axes around strips of the vector axis."""
        root = self.frame.root()
        self.body.uniform(root, -1)
        start, stop = integer(0), self.frame.dims[self.axis]
        if self.axis == 0:
            start, stop = self.frame.begin, self.frame.end

        def strips(scope: LoopScope) -> None:
            def strip(column: Value, carry: list[Value]) -> list[Value]:
                end = minimum(self.builder, stop, self.builder.add(column, integer(self.width)))
                self.strip(
                    scope, column, end, lambda number: self.block(scope, number, column, end)
                )
                return carry

            counted(self.builder, start, stop, self.width, [], strip)

        self.frame.nest(root, self.outer, strips, self.body.entered)

    def strip(
        self, scope: LoopScope, start: Value, stop: Value, block: Callable[[Value], None]
    ) -> None:
        """The results of the columns [start, stop); `block(number)` puts those of one block in row 0 of the partial
        results."""
        b = self.builder
        size = b.sub(stop, start)

        def push(number: Value, carry: list[Value]) -> list[Value]:
            block(number)
            self._push(number, size)
            return carry

        self._clear(integer(1), size)
        counted(b, integer(0), self.blocks, 1, [], push)
        self._result(size)
        here = scope.inner()
        here.values = {}
        for level in range(-1, len(self.outer)):
            self.after.uniform(here, level)

        def given(window: Window) -> dict[int, SimdValue]:
            state = self.partial.load(integer(0), b.sub(window.index, start), self.lanes)
            return self.reductions.finished(self.e, state)

        self.after.windows(here, start, stop, [], given=given)

    def each_vector(self, size: Value, visit: Callable[[Value], None]) -> None:
        """`visit(column)` for each vector of columns."""

        def body(column: Value, carry: list[Value]) -> list[Value]:
            visit(column)
            return carry

        counted(self.builder, integer(0), size, self.lanes, [], body)

    def _clear(self, rows: Value, size: Value) -> None:
        """Identities in the first rows of the partial results."""
        identity = self.reductions.identity(self.e)

        def row(number: Value, carry: list[Value]) -> list[Value]:
            self.each_vector(size, lambda column: self.partial.store(identity, number, column))
            return carry

        counted(self.builder, integer(0), rows, 1, [], row)

    def block(self, scope: LoopScope, number: Value, start: Value, stop: Value) -> None:
        """The folded results of one block in row 0 of the partial results."""
        b, size = self.builder, self.builder.sub(stop, start)
        first = b.shl(number, integer(SHIFT))
        last = minimum(b, self.total, b.add(first, integer(reduction_order.BLOCK)))
        used = integer(reduction_order.LANES)
        if self.reductions.neutral:
            used = minimum(b, used, b.sub(last, first))
        self._clear(used, size)
        done = first
        if self.narrow is not None:
            done = self._chunks(self.narrow, scope, first, last, start, stop)
        elif len(self.frame.kernel.body) <= MOST_BODY_INSTRUCTIONS:
            done = self._layers(scope, first, last, start, stop)

        def element(flat: Value, carry: list[Value]) -> list[Value]:
            self._element(scope, flat, start, stop)
            return carry

        counted(b, done, last, 1, [], element)
        self._fold(used, size)

    def _layers(
        self, scope: LoopScope, first: Value, last: Value, start: Value, stop: Value
    ) -> Value:
        """Elements `ELEMENTS_AT_ONCE` at once for each lane, as far as there are so many for all lanes; where the rest
        begins. Columns beyond whole vectors follow by themselves; where whole ones are few, nothing is done."""
        b, deep = self.builder, ELEMENTS_AT_ONCE * reduction_order.LANES
        whole = b.add(start, b.and_(b.sub(stop, start), integer(-self.lanes)))
        partial = b.icmp_signed("<", whole, stop)
        least = b.select(
            partial,
            integer(PARTIAL_ROW_VECTORS * self.lanes),
            integer(WIDE_ROW_VECTORS * self.lanes),
        )
        useful = b.icmp_signed(">=", b.sub(whole, start), least)
        length = b.and_(b.sub(last, first), integer(-deep))
        end = b.select(useful, b.add(first, length), first)

        def layers(base: Value, carry: list[Value]) -> list[Value]:
            def lane(number: Value, carry: list[Value]) -> list[Value]:
                flats = [
                    b.add(b.add(base, number), integer(i * reduction_order.LANES))
                    for i in range(ELEMENTS_AT_ONCE)
                ]
                self._elements(scope, flats, start, whole)
                return carry

            def rest(flat: Value, carry: list[Value]) -> list[Value]:
                self._element(scope, flat, whole, stop, start)
                return carry

            counted(b, integer(0), integer(reduction_order.LANES), 1, [], lane)
            left = b.select(partial, integer(deep), integer(0))
            return counted(b, base, b.add(base, left), 1, [], rest)

        counted(b, first, end, deep, [], layers)
        return end

    def _elements(self, scope: LoopScope, flats: list[Value], start: Value, stop: Value) -> None:
        """Elements of one lane, in order, of the columns [start, stop), whole vectors."""
        b = self.builder
        lane = b.and_(flats[0], integer(reduction_order.LANES - 1))
        scopes = [self.body.prepared(self._row(scope, flat)) for flat in flats]

        def column(index: Value, carry: list[Value]) -> list[Value]:
            places = self.partial.places(lane, b.sub(index, start))
            state = load_state(b, self.partial.elements, self.lanes, places)
            for here, flat in zip(scopes, flats, strict=True):
                state = self.body.whole(here, index, state, self._taking(flat))
            store_state(b, state, places)
            return carry

        counted(b, start, stop, self.lanes, [], column)

    def _chunks(
        self, stage: Stage, scope: LoopScope, first: Value, last: Value, start: Value, stop: Value
    ) -> Value:
        """Elements of all lanes at once, as far as there are so many; where the rest begins. Columns are taken by
        windows of `stage`, for a chunk of elements each."""
        b = self.builder
        end = b.add(first, b.and_(b.sub(last, first), integer(-reduction_order.LANES)))
        scope = stage.narrowed(scope)

        def chunk(base: Value, carry: list[Value]) -> list[Value]:
            until = minimum(b, end, b.add(base, integer(CHUNK_ELEMENTS)))

            def window(index: Value, carry: list[Value]) -> list[Value]:
                self._accumulate(stage, scope, base, until, start, stop, index)
                return carry

            return counted(b, start, stop, stage.e.lanes, carry, window)

        counted(b, first, end, CHUNK_ELEMENTS, [], chunk)
        return end

    def _accumulate(
        self,
        stage: Stage,
        scope: LoopScope,
        first: Value,
        last: Value,
        start: Value,
        stop: Value,
        index: Value,
    ) -> None:
        """The elements [first, last), which begin in lane 0 and end in the last one, of the columns that a window at
        `index` has of [start, stop)."""
        b, elements, lanes = self.builder, self.partial.elements, stage.e.lanes
        high = minimum(b, b.sub(stop, index), integer(lanes))
        column = b.sub(index, start)
        rows = [self.partial.places(integer(lane), column) for lane in range(reduction_order.LANES)]
        states = [load_state(b, elements, lanes, places) for places in rows]
        width = len(elements)

        def layer(flat: Value, carry: list[Value]) -> list[Value]:
            following: list[Value] = []
            for lane in range(reduction_order.LANES):
                place = b.add(flat, integer(lane))
                here = stage.prepared(self._row(scope, place, stage))
                self._ask_ahead(here, index)
                state = carry[lane * width : (lane + 1) * width]
                following += stage.part(
                    here, Window(index, None, high), state, self._taking(place, stage)
                )
            return following

        joined = [value for state in states for value in state]
        joined = counted(b, first, last, reduction_order.LANES, joined, layer)
        for lane, places in enumerate(rows):
            store_state(b, joined[lane * width : (lane + 1) * width], places)

    def _ask_ahead(self, scope: LoopScope, index: Value) -> None:
        """Ask for what an element some places further has in a column."""
        b, strides, inner = self.builder, self.frame.strides, self.axes[-1]
        for key, pointer in scope.pointers.items():
            if key[0] == "operand" and (key, inner) in strides and (key, self.axis) in strides:
                away = b.mul(strides[key, inner], integer(PREFETCH_ELEMENTS))
                place = b.gep(pointer, [b.mul(index, strides[key, self.axis])])
                ask_for(b, b.gep(place, [away]), FIRST_CACHE)

    def _fold(self, used: Value, size: Value) -> None:
        """Lanes folded by halves into row 0 of the partial results, as far as there are lanes."""
        b = self.builder

        def together() -> list[Value]:
            self.each_vector(size, lambda column: self.partial.store(
                self._folded(0, 1, column), integer(0), column))  # fmt: skip
            return []

        def by_halves() -> list[Value]:
            def half(step: Value, carry: list[Value]) -> list[Value]:
                self._halve(b.lshr(integer(reduction_order.LANES // 2), step), used, size)
                return carry

            return counted(
                b, integer(0), integer(reduction_order.LANES.bit_length() - 1), 1, [], half
            )

        choose(b, b.icmp_signed("==", used, integer(reduction_order.LANES)), together, by_halves)

    def _folded(self, lane: int, distance: int, column: Value) -> State:
        """The lanes `lane`, `lane` + `distance`, ... of some columns, folded."""
        if distance == reduction_order.LANES:
            return self.partial.load(integer(lane), column, self.lanes)
        further = self._folded(lane, 2 * distance, column)
        other = self._folded(lane + distance, 2 * distance, column)
        return self.reductions.combine(self.e, further, other)

    def _halve(self, distance: Value, used: Value, size: Value) -> None:
        """Each lane takes the one `distance` further, as far as there are lanes."""
        b = self.builder

        def lane(number: Value, carry: list[Value]) -> list[Value]:
            self._merge(self.partial, number, self.partial, b.add(number, distance), number, size)
            return carry

        counted(b, integer(0), minimum(b, distance, b.sub(used, distance)), 1, [], lane)

    def _merge(
        self,
        left: _Strip,
        left_row: Value,
        right: _Strip,
        right_row: Value,
        target: Value,
        size: Value,
    ) -> None:
        """Row `target` of the partial results becomes the left row combined with the right one."""

        def column(index: Value) -> None:
            a = left.load(left_row, index, self.lanes)
            other = right.load(right_row, index, self.lanes)
            self.partial.store(self.reductions.combine(self.e, a, other), target, index)

        self.each_vector(size, column)

    def _taking(self, flat: Value, stage: Stage | None = None) -> Finish:
        """The function that adds the values of a window, of the body or of `stage`, to a state; they begin at index
        `flat`."""
        b, e = self.builder, (stage or self.body).e

        def finish(window: Window, values: dict[int, SimdValue], state: State) -> State:
            indexes = b.broadcast(flat, e.lanes) if self.reductions.indexed else None
            return self.reductions.combine(e, state, self.reductions.lift(e, values, indexes))

        return finish

    def _element(
        self, scope: LoopScope, flat: Value, start: Value, stop: Value, origin: Value | None = None,
    ) -> None:  # fmt: skip
        """One element of the columns [start, stop), into its lane; the strip begins at `origin`, or at `start`."""
        b = self.builder
        lane = b.and_(flat, integer(reduction_order.LANES - 1))
        take = self._taking(flat)

        def finish(window: Window, values: dict[int, SimdValue], carry: State) -> State:
            places = self.partial.places(lane, b.sub(window.index, origin or start))
            before = load_state(b, self.partial.elements, self.lanes, places)
            store_state(b, take(window, values, before), places)
            return carry

        self.body.windows(self._row(scope, flat), start, stop, [], finish)

    def _row(self, scope: LoopScope, flat: Value, stage: Stage | None = None) -> LoopScope:
        """The scope at a flat reduced index, of the body or of `stage`."""
        b, indexes, rest = self.builder, [], flat
        for axis in reversed(self.axes[1:]):
            quotient = b.udiv(rest, self.frame.dims[axis])
            indexes.append((axis, b.sub(rest, b.mul(quotient, self.frame.dims[axis]))))
            rest = quotient
        for axis, index in [(self.axes[0], rest), *reversed(indexes)]:
            scope = self.frame.enter(scope, axis, index)
            (stage or self.body).entered(scope, axis)
        return scope

    def _height(self, blocks: Value) -> Value:
        return self.builder.intrinsic("llvm.ctpop.i64", I64, [blocks])

    def _push(self, number: Value, size: Value) -> None:
        """Take the block in row 0 onto the stack; see `reduce_ops.ReductionTree`."""
        b, height = self.builder, self._height(number)
        ones = b.intrinsic("llvm.cttz.i64", I64, [b.not_(number), Value(I1, "false")])
        self._unstack(height, ones, size)
        row = b.sub(height, ones)

        def column(index: Value) -> None:
            self.stack.store(self.partial.load(integer(0), index, self.lanes), row, index)

        self.each_vector(size, column)

    def _unstack(self, height: Value, count: Value, size: Value) -> None:
        """Combine the topmost `count` rows of the stack with row 0 of the partial results."""
        b = self.builder

        def merge(step: Value, carry: list[Value]) -> list[Value]:
            row = b.sub(b.sub(height, integer(1)), step)
            self._merge(self.stack, row, self.partial, integer(0), integer(0), size)
            return carry

        counted(b, integer(0), count, 1, [], merge)

    def _result(self, size: Value) -> None:
        """The result of all blocks in row 0; the last pushed block is still there."""
        height = self._height(self.blocks)
        below = self.builder.sub(height, integer(1))
        self._unstack(below, below, size)


def lower(frame: LoopFrame, lookup: Lookup, target: Target, lanes: int) -> None:
    """Write the function of a kernel whose lanes run across its rows."""
    Columns(frame, lookup, target, lanes).lower()
