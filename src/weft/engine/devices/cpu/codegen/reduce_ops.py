"""The algebra of reductions: what is accumulated, from what start, and how two results combine.

A *state* is a list of vectors, one list per reduction: the value (two vectors if complex), and for argmax and argmin
also the index. `Reduction` makes and combines states on any number of lanes; the lowering decides which elements are
combined when: elements of lane i mod 16 in order, lanes by halves, blocks by `ReductionTree`. float16 and bfloat16
accumulate in float32, integers in int64; the result is rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir as llvm

from weft.engine.devices.cpu.elementwise.emitter import Emitter
from weft.engine.devices.cpu.llvm.builder import I1, I8, I64, Builder, Value, counted, integer
from weft.engine.devices.cpu.llvm.simd_value import (
    COMPLEX,
    ELEMENTS,
    FLOATS,
    HALVES,
    INTEGERS,
    UNSIGNED,
    SimdValue,
)
from weft.engine.kernels import loop_ir

State = list[Value]
LARGEST = (1 << 63) - 1
LEVELS = 48


class Reduction:
    """One reduction of a kernel."""

    def __init__(self, reduce: loop_ir.Reduce, source: str) -> None:
        self.kind = reduce.kind
        self.value = reduce.value
        self.result = reduce.dtype
        self.indexed = reduce.kind.startswith("arg")
        self.dtype = accumulator(reduce.kind, source)
        self.width = 2 if self.indexed or self.dtype in COMPLEX else 1

    def elements(self) -> list[Any]:
        """The element type of each vector of a state."""
        value = [ELEMENTS[self.dtype]] * (2 if self.dtype in COMPLEX else 1)
        return [*value, I64] if self.indexed else value

    def identity(self, e: Emitter) -> State:
        """The state of no elements."""
        state = list(e.constant(_identity(self.kind, self.dtype), self.dtype).parts)
        return [*state, e.literal(LARGEST, I64)] if self.indexed else state

    def lift(self, e: Emitter, v: SimdValue, indexes: Value | None) -> State:
        """The state of one element per lane."""
        state = list(e.cast(v, self.dtype).parts)
        return [*state, indexes] if self.indexed and indexes is not None else state

    def combine(self, e: Emitter, a: State, b: State) -> State:
        """The state of both, a standing before b."""
        if self.indexed:
            return self._better(e, a, b)
        left, right = SimdValue(self.dtype, *a), SimdValue(self.dtype, *b)
        return list(getattr(e, _METHODS[self.kind])(left, right).parts)

    def _better(self, e: Emitter, a: State, b: State) -> State:
        """The larger (smaller) value; a nan is beyond all; of equals the first index."""
        builder = e.builder
        left, right = SimdValue(self.dtype, a[0]), SimdValue(self.dtype, b[0])
        beyond = (e.gt if self.kind == "argmax" else e.lt)(right, left)
        level = e.eq(left, right)
        if self.dtype in FLOATS:
            nan_left, nan_right = e.isnan(left), e.isnan(right)
            beyond = e.logical_or(beyond, e.logical_and(nan_right, e.logical_not(nan_left)))
            level = e.logical_or(level, e.logical_and(nan_left, nan_right))
        before = SimdValue("bool", builder.icmp_signed("<", b[1], a[1]))
        take = e.logical_or(beyond, e.logical_and(level, before)).value
        return [builder.select(take, y, x) for x, y in zip(a, b, strict=True)]

    def finished(self, e: Emitter, state: State) -> SimdValue:
        """The result in its dtype."""
        value = SimdValue("int64", state[-1]) if self.indexed else SimdValue(self.dtype, *state)
        return e.cast(value, self.result)


_METHODS = {
    "sum": "add",
    "prod": "mul",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
}


def accumulator(kind: str, source: str) -> str:
    """The dtype that a reduction of `source` values accumulates in."""
    if kind in ("any", "all"):
        return "bool"
    if source in HALVES:
        return "float32"
    if kind in ("sum", "prod") and source in (*INTEGERS, "bool"):
        return "int64"
    if kind.startswith("arg") and source == "bool":
        return "uint8"
    return source


def _identity(kind: str, dtype: str) -> float:
    if kind in ("sum", "any"):
        return 0
    if kind in ("prod", "all"):
        return 1
    lowest = kind in ("max", "argmax")
    if dtype in FLOATS:
        return float("-inf") if lowest else float("inf")
    if dtype in ("bool", *UNSIGNED):
        return 0 if lowest else (1 << int(ELEMENTS[dtype].width)) - 1
    half = 1 << (int(ELEMENTS[dtype].width) - 1)
    return -half if lowest else half - 1


class KernelReductions:
    """All reductions of a kernel; their states joined to one list."""

    def __init__(self, kernel: loop_ir.LoopKernel) -> None:
        self.items = [Reduction(item, kernel.body[item.value].dtype) for item in kernel.reduces]
        self.first = len(kernel.body)
        self.indexed = any(item.indexed for item in self.items)
        # An infinity times the complex identity is a nan: there, missing lanes take part.
        self.neutral = not any(i.kind == "prod" and i.dtype in COMPLEX for i in self.items)

    def elements(self) -> list[Any]:
        """The element type of each vector."""
        return [element for item in self.items for element in item.elements()]

    def identity(self, e: Emitter) -> State:
        """The state of no elements."""
        return [value for item in self.items for value in item.identity(e)]

    def lift(self, e: Emitter, values: dict[int, SimdValue], indexes: Value | None) -> State:
        """The state of one element per lane, from body values."""
        states = [item.lift(e, values[item.value], indexes) for item in self.items]
        return [value for state in states for value in state]

    def _slices(self, state: Sequence[Value]) -> list[State]:
        found, start = [], 0
        for item in self.items:
            width = len(item.elements())
            found.append(list(state[start : start + width]))
            start += width
        return found

    def combine(self, e: Emitter, a: Sequence[Value], b: Sequence[Value]) -> State:
        """The state of both, a standing before b."""
        pairs = zip(self.items, self._slices(a), self._slices(b), strict=True)
        return [value for item, x, y in pairs for value in item.combine(e, x, y)]

    def finished(self, e: Emitter, state: Sequence[Value]) -> dict[int, SimdValue]:
        """The results by SSA id."""
        pairs = zip(self.items, self._slices(state), strict=True)
        return {
            number: item.finished(e, part) for number, (item, part) in enumerate(pairs, self.first)
        }

    def fold(self, e: Emitter, state: Sequence[Value]) -> State:
        """The lanes folded by halves: lane i takes lane i + 8, then 4, 2, 1.  Gives one lane."""
        current, lanes = list(state), e.lanes
        while lanes > 1:
            lanes //= 2
            halves = [
                [e.builder.shuffle(v, v, range(start, start + lanes)) for v in current]
                for start in (0, lanes)
            ]
            current = self.combine(Emitter(e.builder, lanes), *halves)
        return current


def load_state(
    b: Builder, elements: Sequence[llvm.Type], lanes: int, places: Sequence[Value]
) -> State:
    """A state from memory, where a bool is a byte."""
    state = []
    for element, place in zip(elements, places, strict=True):
        stored = I8 if element == I1 else element
        value = b.load(place, typ=llvm.VectorType(stored, lanes))
        state.append(b.trunc(value, llvm.VectorType(element, lanes)) if element == I1 else value)
    return state


def store_state(b: Builder, state: Sequence[Value], places: Sequence[Value]) -> None:
    """Write a state to memory."""
    for value, place in zip(state, places, strict=True):
        byte = value.type.element == I1
        b.store(b.zext(value, llvm.VectorType(I8, value.type.count)) if byte else value, place)


SLOT = 8  # bytes of one element of a state in scratch and on the stack


class ReductionTree:
    """The fixed tree over block results: adjacent pairs level by level, an odd last one waits.

    Blocks arrive in order.  The stack holds one result per set bit of their number, so pushing
    block k merges once for each trailing one of k: the same pairs, without keeping all results.
    """

    def __init__(self, reductions: KernelReductions, e: Emitter) -> None:
        self.reductions = reductions
        self.e = e
        self.builder = e.builder
        self.elements = reductions.elements()
        self.bytes = SLOT * len(self.elements)
        self.stack = self.builder.alloca(f"[{LEVELS * self.bytes} x i8]")

    def places(self, base: Value, index: Value) -> list[Value]:
        """The addresses of the state number `index` in an array of states."""
        b = self.builder
        start = b.gep(base, [b.mul(index, integer(self.bytes))])
        return [b.gep(start, [integer(SLOT * i)]) for i in range(len(self.elements))]

    def load(self, base: Value, index: Value) -> State:
        """One state of an array of states."""
        return load_state(self.builder, self.elements, 1, self.places(base, index))

    def _height(self, blocks: Value) -> Value:
        return self.builder.intrinsic("llvm.ctpop.i64", I64, [blocks])

    def push(self, block: Value, state: State) -> None:
        """Take the result of block number `block`."""
        b, height = self.builder, self._height(block)
        ones = b.intrinsic("llvm.cttz.i64", I64, [b.not_(block), Value(I1, "false")])

        def merge(step: Value, state: list[Value]) -> State:
            index = b.sub(b.sub(height, integer(1)), step)
            return self.reductions.combine(self.e, self.load(self.stack, index), state)

        state = counted(b, integer(0), ones, 1, state, merge)
        store_state(b, state, self.places(self.stack, b.sub(height, ones)))

    def result(self, blocks: Value) -> State:
        """The result of `blocks` >= 1 blocks."""
        b, height = self.builder, self._height(blocks)
        last = b.sub(height, integer(1))

        def merge(step: Value, state: list[Value]) -> State:
            index = b.sub(b.sub(last, integer(1)), step)
            return self.reductions.combine(self.e, self.load(self.stack, index), state)

        return counted(b, integer(0), last, 1, self.load(self.stack, last), merge)
