"""Evaluation of a list of instructions, either once for a place or in windows along an axis.

A `Stage` is the body or the epilogue of a kernel on a number of lanes.  Instructions are placed at
the outermost loop that they vary along (`uniform`); those that vary along the vector axis run in
`windows` of all lanes, of which the first and last may be partial.  Each window writes the stage's
stores and hands its values to `finish`, which accumulates reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from weft.engine.devices.cpu.codegen.loop_nest import Key, LoopFrame, LoopScope
from weft.engine.devices.cpu.codegen.schedule import Scheduled
from weft.engine.devices.cpu.codegen.vector_memory import (
    VectorMemory,
    decode,
    encode,
    memory_element,
)
from weft.engine.devices.cpu.elementwise.emitter import Emitter
from weft.engine.devices.cpu.llvm.builder import (
    I1,
    I32,
    I64,
    Value,
    choose,
    counted,
    integer,
    minimum,
)
from weft.engine.devices.cpu.llvm.simd_value import SimdValue, joined, pieces
from weft.engine.devices.cpu.llvm.target import Target
from weft.engine.kernels import loop_ir

Lookup = Callable[[str], Callable[..., Any]]
Numbered = list[tuple[int, loop_ir.Instr]]


@dataclass
class Window:
    """The lanes [low, high) of a vector whose lane 0 stands at `index`; low may be None for 0."""

    index: Value
    low: Value | None
    high: Value
    full: bool = False


Finish = Callable[[Window, dict[int, SimdValue], list[Value]], list[Value]]


def nothing(window: Window, values: dict[int, SimdValue], carry: list[Value]) -> list[Value]:
    """A `finish` that accumulates nothing."""
    return carry


Given = Callable[[Window], dict[int, SimdValue]]


def no_values(window: Window) -> dict[int, SimdValue]:
    """A `given` that supplies nothing."""
    return {}


class Stage:
    """Instructions and stores of one stage of a kernel, on `lanes` lanes along order[-1]."""

    def __init__(
        self,
        frame: LoopFrame,
        lookup: Lookup,
        target: Target,
        stage: str,
        order: Sequence[int],
        lanes: int,
    ) -> None:
        kernel = frame.kernel
        self.frame = frame
        self.lookup = lookup
        self.builder = frame.builder
        self.e = Emitter(frame.builder, lanes)
        self.memory = VectorMemory(self.e, target)
        self.order = tuple(order)
        self.axis = self.order[-1] if order else -1
        body = len(kernel.body)
        epilogue = enumerate(kernel.epilogue, body + len(kernel.reduces))
        self.instrs: Numbered = list(enumerate(kernel.body) if stage == "body" else epilogue)
        self.stores = [(n, item) for n, item in enumerate(kernel.stores) if item.stage == stage]
        self.top = len(self.order) - 1
        self.contiguous: set[int] = set()  # operands whose windows were made contiguous
        self.levels: dict[int, int] = {}
        if stage == "epilogue":
            self.levels = dict.fromkeys(range(body, body + len(kernel.reduces)), self.top)
        for number, instr in self.instrs:
            self.levels[number] = self._level(instr)

    def _level(self, instr: loop_ir.Instr) -> int:
        found = [self.levels[arg] for arg in instr.args]
        if instr.operand >= 0:
            operand = self.frame.kernel.operands[instr.operand]
            strides = operand.strides
            if operand.local >= 0:  # there once the earlier phases of the row have run
                found.append(len(self.order) - 2)
            found += [i for i, axis in enumerate(self.order) if strides[axis] != "0"]
        return max(found, default=-1)

    # Values that do not vary along the lanes

    def uniform(self, scope: LoopScope, level: int) -> None:
        """Evaluate into `scope` the instructions that vary along order[level] but no further."""
        for number, instr in self.instrs:
            if self.levels[number] == level:
                scope.values[number] = self._value(instr, scope.values, scope)

    def entered(self, scope: LoopScope, axis: int) -> None:
        """`uniform` for the callback of a loop nest."""
        level = self.order.index(axis) if axis in self.order else -2
        if level < self.top:
            self.uniform(scope, level)

    def _value(
        self, instr: loop_ir.Instr, values: dict[int, SimdValue], scope: LoopScope
    ) -> SimdValue:
        if instr.operand < 0:
            return self._compute(instr, values)
        if instr.op == "offset":
            total = scope.offsets[instr.operand]
            return SimdValue("int64", self.builder.broadcast(total, self.e.lanes))
        pointer = scope.pointers["operand", instr.operand]
        if instr.op == "load_indexed":
            pointer = self._indexed(instr, values, pointer)
        return decode(self.e, self.memory.load_one(pointer, instr.dtype), instr.dtype)

    def _compute(self, instr: loop_ir.Instr, values: dict[int, SimdValue]) -> SimdValue:
        args = [values[arg] for arg in instr.args]
        if instr.op == "cast":
            return self.e.cast(args[0], instr.dtype)
        self.e.known = values
        result = cast(SimdValue, self.lookup(instr.op)(self.e, instr.dtype, *args))
        if result.dtype != instr.dtype:
            raise TypeError(f"lowering of {instr.op} gave {result.dtype}, not {instr.dtype}")
        return result

    # Indexes

    def _indexed(self, instr: loop_ir.Instr, values: dict[int, SimdValue], pointer: Value) -> Value:
        """The address that index values, equal in every lane, lead to."""
        b, size = self.builder, integer(loop_ir.SIZES[instr.dtype])
        for position, arg in enumerate(instr.args):
            vector = self.e.cast(values[arg], "int64").value
            index = b.extract_element(vector, Value(I32, "0"))
            stride, extent = self.frame.indexes[instr.operand, position]
            safe, bad = self._inside(index, extent)
            self._flag(bad)
            pointer = b.gep(pointer, [b.mul(safe, b.mul(stride, size))])
            pointer = self._existing(pointer, extent)
        return pointer

    def _inside(self, index: Value, extent: Value) -> tuple[Value, Value]:
        """An index, 0 if out of range (as negative ones are); and whether it was."""
        b = self.builder
        zero = integer(0) if index.type == I64 else Value(index.type, "zeroinitializer")
        bad = b.icmp_unsigned(">=", index, extent)
        return b.select(bad, zero, index), bad

    def _existing(self, pointer: Value, extent: Value) -> Value:
        """The address, or one on the stack where an axis without elements was indexed."""
        b = self.builder
        spare = b.alloca("[16 x i8]")
        b.store(Value("[16 x i8]", "zeroinitializer"), spare, align=16)
        empty = b.icmp_signed("==", extent, integer(0))
        if pointer.type == spare.type:
            return b.select(empty, spare, pointer)
        lanes = self.e.lanes
        return b.select(b.broadcast(empty, lanes), b.broadcast(spare, lanes), pointer)

    def _flag(self, bad: Value) -> None:
        """Set the status cell if a condition holds."""
        b, status = self.builder, self.frame.status
        assert status is not None

        def report() -> list[Value]:
            b.store(integer(1), status)
            return []

        choose(b, bad, report, list)

    def _gathered(
        self, instr: loop_ir.Instr, values: dict[int, SimdValue], scope: LoopScope, window: Window
    ) -> SimdValue:
        """A load whose index values differ between lanes."""
        b, e, key = self.builder, self.e, ("operand", instr.operand)
        high = minimum(b, window.high, integer(e.lanes))
        lanes = self.memory.clamped_lanes(window.low, high)
        base = self._pointer(scope, key, window.index)
        stride = self.frame.strides.get((key, self.axis), integer(0))
        offsets = b.mul(lanes, b.broadcast(stride, e.lanes))
        valid = self.memory.mask(window.low, high)
        addresses = b.gep(base, [offsets])
        size = integer(loop_ir.SIZES[instr.dtype])
        for position, arg in enumerate(instr.args):
            step, extent = self.frame.indexes[instr.operand, position]
            index = e.cast(values[arg], "int64").value
            safe, bad = self._inside(index, b.broadcast(extent, e.lanes))
            name = f"llvm.vector.reduce.or.v{e.lanes}i1"
            self._flag(b.intrinsic(name, I1, [b.and_(bad, valid)]))
            step = b.broadcast(b.mul(step, size), e.lanes)
            addresses = self._existing(b.gep(addresses, [b.mul(safe, step)]), extent)
        return decode(e, self.memory.gather(addresses, instr.dtype), instr.dtype)

    # Windows along the vector axis

    def windows(
        self,
        scope: LoopScope,
        start: Value,
        stop: Value,
        carry: Sequence[Value],
        finish: Finish = nothing,
        phase: Value | None = None,
        masked: bool = False,
        given: Given = no_values,
    ) -> list[Value]:
        """Cover [start, stop) of the vector axis, `start` standing in lane `phase` (None: 0).

        `given` supplies values before the instructions, `finish` runs after them: once per window,
        or if `masked`, apart for full and for partial windows.
        """
        scope = self.prepared(scope)
        first = start if phase is None else self.builder.sub(start, phase)
        low = start if phase is not None else None

        def body(index: Value, carry: list[Value]) -> list[Value]:
            return self._window(scope, index, low, stop, carry, finish, masked, given)

        return counted(self.builder, first, stop, self.e.lanes, carry, body)

    def spread(self, scope: LoopScope, lanes: int) -> LoopScope:
        """A scope of a stage with fewer lanes, its values repeated as often as this one's lanes want them."""
        inner, times = scope.inner(), self.e.lanes // lanes
        for number, value in scope.values.items():
            parts = [joined(self.builder, [part] * times) for part in value.parts]
            inner.values[number] = SimdValue(value.dtype, *parts)
        return inner

    def narrowed(self, scope: LoopScope) -> LoopScope:
        """A scope of a stage with more lanes, of whose values the first lanes are taken: all of them are equal."""
        inner = scope.inner()
        for number, value in scope.values.items():
            inner.values[number] = pieces(self.builder, value, self.e.lanes)[0]
        return inner

    def abreast(
        self,
        places: Sequence[tuple[LoopScope, Value]],
        length: Value,
        carry: Sequence[Value],
        finish: Finish,
    ) -> list[list[Value]]:
        """Cover [start, start + length) in each of some scopes, all at once; `length` is a multiple of the lanes. Each
        has a carry of its own, at first this one."""
        width = len(carry)
        prepared = [(self.prepared(scope), start) for scope, start in places]

        def body(step: Value, carries: list[Value]) -> list[Value]:
            following: list[Value] = []
            for number, (scope, start) in enumerate(prepared):
                own = carries[number * width : (number + 1) * width]
                following += self.whole(scope, self.builder.add(start, step), own, finish)
            return following

        initial = [value for _ in places for value in carry]
        found = counted(self.builder, integer(0), length, self.e.lanes, initial, body)
        return [found[at : at + width] for at in range(0, len(found), width)]

    def whole_windows(self, scope: LoopScope, start: Value, length: int) -> None:
        """Cover [start, start + length); `length` is a multiple of the lanes."""
        scope = self.prepared(scope)
        for step in range(0, length, self.e.lanes):
            self.whole(scope, self.builder.add(start, integer(step)), [], nothing)

    def whole(
        self, scope: LoopScope, index: Value, carry: list[Value], finish: Finish
    ) -> list[Value]:
        """A window of which all lanes take part."""
        window = Window(index, None, integer(self.e.lanes), full=True)
        return self.part(scope, window, carry, finish)

    def part(
        self, scope: LoopScope, window: Window, carry: list[Value], finish: Finish
    ) -> list[Value]:
        """One window, of which some lanes take part."""
        direct = [item for item in self.instrs if self._direct(*item)]
        raws = [self._load(scope, number, instr, window) for number, instr in direct]
        values = self._evaluated(scope, window, direct, raws)
        for number, item in self.stores:
            self._store(scope, number, item, encode(self.e, values[item.value]), window)
        return finish(window, values, carry)

    def prepared(self, scope: LoopScope) -> LoopScope:
        """The scope with operands moved to where indexes, equal in all lanes, point."""
        scope = scope.inner()
        for number, instr in self.instrs:
            if self._direct(number, instr) and instr.op == "load_indexed":
                pointer = scope.pointers["operand", instr.operand]
                scope.pointers["indexed", number] = self._indexed(instr, scope.values, pointer)
        return scope

    def _direct(self, number: int, instr: loop_ir.Instr) -> bool:
        """True if this is a load along the lanes from an address known before the window."""
        if self.levels[number] != self.top or instr.operand < 0 or instr.op == "offset":
            return False
        return all(self.levels[arg] < self.top for arg in instr.args)

    def _pointer(self, scope: LoopScope, key: Key, index: Value) -> Value:
        stride = self._stride(key)
        return self.builder.gep(scope.pointers[key], [self.builder.mul(index, stride)])

    def _stride(self, key: Key) -> Value:
        if key[0] == "indexed":
            key = ("operand", dict(self.instrs)[key[1]].operand)
        if key[0] == "operand" and key[1] in self.contiguous:
            return integer(loop_ir.SIZES[self.frame.kernel.operands[key[1]].dtype])
        return self.frame.strides.get((key, self.axis), integer(0))

    def _strided(self, number: int) -> bool:
        strides = self.frame.kernel.operands[number].strides
        return number not in self.contiguous and strides[self.axis] != "1"

    def _load(self, scope: LoopScope, number: int, instr: loop_ir.Instr, window: Window) -> Value:
        key = ("indexed", number) if instr.args else ("operand", instr.operand)
        pointer = self._pointer(scope, key, window.index)
        if self._strided(instr.operand):
            stride = self._stride(key)
            if window.full:
                return self.memory.load_spread(pointer, stride, instr.dtype)
            return self.memory.load_apart(pointer, stride, window.low, window.high, instr.dtype)
        if window.full:
            return self.memory.load(pointer, instr.dtype)
        return self.memory.load_partial(pointer, instr.dtype, window.low, window.high)

    def _window(
        self,
        scope: LoopScope,
        index: Value,
        start: Value | None,
        stop: Value,
        carry: list[Value],
        finish: Finish,
        masked: bool,
        given: Given,
    ) -> list[Value]:
        b, lanes = self.builder, integer(self.e.lanes)
        high = b.sub(stop, index)
        is_full, low = b.icmp_signed(">=", high, lanes), None
        if start is not None:
            low = b.sub(start, index)
            inside = b.icmp_signed("<=", low, integer(0))
            low = b.select(inside, integer(0), low)
            is_full = b.and_(is_full, inside)
        full, window = Window(index, None, lanes, full=True), Window(index, low, high)
        direct = [item for item in self.instrs if self._direct(*item)]

        def load(window: Window) -> list[Value]:
            return [self._load(scope, number, instr, window) for number, instr in direct]

        raws = self._split(is_full, full, window, load) if direct else []
        scope.values.update(given(window))
        values = self._evaluated(scope, window, direct, raws)
        encoded = [encode(self.e, values[item.value]) for _, item in self.stores]

        def conclude(window: Window) -> list[Value]:
            for (number, item), raw in zip(self.stores, encoded, strict=True):
                self._store(scope, number, item, raw, window)
            return finish(window, values, carry) if masked else []

        if masked:
            return self._split(is_full, full, window, conclude)
        if self.stores:
            self._split(is_full, full, window, conclude)
        return finish(window, values, carry)

    def _split(
        self, is_full: Value, full: Window, window: Window, make: Callable[[Window], list[Value]]
    ) -> list[Value]:
        """`make` for a full window and for a partial one, chosen at run time."""
        b = self.builder

        def partial() -> list[Value]:
            if window.low is None:  # then high is below the number of lanes
                return make(window)
            high = minimum(b, window.high, integer(self.e.lanes))
            return make(Window(window.index, window.low, high))

        return choose(b, is_full, lambda: make(full), partial)

    def _evaluated(
        self, scope: LoopScope, window: Window, direct: Numbered, raws: list[Value]
    ) -> dict[int, SimdValue]:
        values = cast(dict[int, SimdValue], dict(scope.values))
        loaded = dict(zip((number for number, _ in direct), raws, strict=True))
        for number, instr in self.instrs:
            if number in loaded:
                values[number] = decode(self.e, loaded[number], instr.dtype)
            elif self.levels[number] == self.top:
                values[number] = self._varying(instr, values, scope, window)
        return values

    def _varying(
        self, instr: loop_ir.Instr, values: dict[int, SimdValue], scope: LoopScope, window: Window
    ) -> SimdValue:
        if instr.op == "load_indexed":
            return self._gathered(instr, values, scope, window)
        if instr.op != "offset":
            return self._compute(instr, values)
        b = self.builder
        stride = self.frame.strides.get((("virtual", instr.operand), self.axis), integer(0))
        base = b.add(scope.offsets[instr.operand], b.mul(window.index, stride))
        steps = b.mul(self.memory.lane_numbers(), b.broadcast(stride, self.e.lanes))
        return SimdValue("int64", b.add(b.broadcast(base, self.e.lanes), steps))

    def _store(
        self, scope: LoopScope, number: int, item: loop_ir.Store, raw: Value, window: Window
    ) -> None:
        pointer = self._pointer(scope, ("store", number), window.index)
        if item.strides[self.axis] != "1":
            stride = self._stride(("store", number))
            self.memory.store_apart(raw, pointer, stride, window.low, window.high, item.dtype)
        elif window.full:
            self.memory.store(raw, pointer)
        else:
            self.memory.store_partial(raw, pointer, window.low, window.high, item.dtype)

    # One place

    def scalar(self, scope: LoopScope) -> None:
        """Evaluate everything once, on one lane, and store it."""
        for number, instr in self.instrs:
            scope.values[number] = self._value(instr, scope.values, scope)
        for number, item in self.stores:
            raw = encode(self.e, scope.values[item.value])
            self.builder.store(raw, scope.pointers["store", number])


def vector_bytes(dtype: str) -> int:
    """Bytes of a lane in a register."""
    element = str(memory_element(dtype))
    return {"i8": 1, "float": 4, "double": 8, "i64": 8}.get(element, 4)


def vector_lanes(kernel: Scheduled, target: Target) -> int:
    """Lanes of an elementwise window: two registers of the widest value, at most 64 lanes."""
    instrs = kernel.body + kernel.epilogue
    widest = max((vector_bytes(item.dtype) for item in instrs), default=8)
    lanes = min(64, target.register_bits // 4 // widest)
    strided = any(item.strides[kernel.axis :][:1] == ("s",) for item in kernel.operands)
    return min(lanes, 16) if strided or kernel.checked else lanes
