"""Packing of axes that have several dimensions in memory: their offsets in tables, and vectors read by their runs.

An axis of a product may be walked in up to `DIMENSIONS` strided dimensions, as channels and the positions of a window
are. `Offsets` writes the offset of each of its elements into a table. A vector of neighbours on such an axis consists
of runs of elements that are `step` apart in memory; `Runs` finds them once, and `Copy` and `Turn` read them at any
position of the other axis: one masked load for each run, which reads nothing outside it. If there are more runs than
`MOST_RUNS`, elements are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from weft.engine.devices.cpu.elementary.expressions import SimdExpr
from weft.engine.devices.cpu.gemm.code import (
    Index,
    LocalFunction,
    address,
    alternatives,
    loop,
    minimum,
    remainder,
)
from weft.engine.devices.cpu.gemm.panels import transpose
from weft.engine.devices.cpu.gemm.spec import Spec
from weft.engine.devices.cpu.llvm.builder import I1, I32, I64, POINTER, Builder, Value, integer

DIMENSIONS = 4  # of an axis, at most
MOST_RUNS = 8  # runs of a vector that are read as runs
RUN_COUNTS = (1, 2, 4, 6, MOST_RUNS)  # numbers of runs for which there are loops
RUN_STEPS = (1, -1, 2)  # between the elements of a run


def record_size(lanes: int) -> int:
    """Words that describe the runs of one vector: how many, then (offset, mask) of each."""
    return 2 + 2 * max(lanes, MOST_RUNS)


GROUP = 8  # offsets written at once
TABLES = ("first", "second")


def sum_of(places: list[Index], steps: list[Index]) -> Index:
    """The offset of a place."""
    total = places[0] * steps[0]
    for place, step in zip(places[1:], steps[1:], strict=True):
        total = total + place * step
    return total


def walk(
    f: Builder, stop: Index, start: list[Index], body: Callable[[Index, list[Index]], list[Index]]
) -> list[Index]:
    """A loop from 0 to `stop`: `body(i, carry)` gives the next i and the next carry. The last carry."""
    before, head = f.block, f.append_basic_block("head")
    inside, done = f.append_basic_block("body"), f.append_basic_block("done")
    f.branch(head)
    f.position_at_end(head)
    first = [stop.like(0), *start]
    phis = [f.phi(value.type) for value in first]
    i, *carry = (SimdExpr(f, phi) for phi in phis)
    f.cbranch((i < stop).value, inside, done)
    f.position_at_end(inside)
    ahead = body(i, carry)
    for phi, value, following in zip(phis, first, ahead, strict=True):
        phi.add_incoming(value.value, before)
        phi.add_incoming(following.value, f.block)
    f.branch(head)
    f.position_at_end(done)
    return carry


class Offsets:
    """Writes the function that fills two tables with the offsets of elements `start` to `start + count` of an axis;
    `axis` holds (size, stride, stride) of each dimension, the last one innermost."""

    def __init__(self, module: ir.Module, name: str) -> None:
        parameters = [("axis", POINTER), ("start", I64), ("count", I64)]
        parameters += [("first", POINTER), ("second", POINTER)]
        self.f = LocalFunction(module, name, parameters)

    def build(self) -> LocalFunction:
        """Stretches of the innermost dimension, a few at a time: what is written beyond one is written again."""
        f = self.f
        words = [
            [SimdExpr(f, f.load(address(f, f.arguments["axis"], 3 * d + part, I64), typ=I64))
             for d in range(DIMENSIONS)]
            for part in range(3)
        ]  # fmt: skip
        sizes, strides = words[0], words[1:]
        places = self.coordinates(sizes)
        offsets = [sum_of(places[:-1], steps[:-1]) for steps in strides]
        moves = [self.moves(sizes[:-1], steps[:-1]) for steps in strides]
        count = f.index("count")

        def stretch(i: Index, carry: list[Index]) -> list[Index]:
            first, *rest = carry
            length = minimum(sizes[-1] - first, count - i)
            for table, start, steps in zip(TABLES, rest[-2:], strides, strict=True):
                place = address(f, f.arguments[table], i, I64)
                self.write(place, start + first * steps[-1], steps[-1], length)
            ahead, transposed = self.following(rest[:-2], sizes[:-1])
            steps = [self.chosen(transposed, move) for move in moves]
            now = [at + step for at, step in zip(rest[-2:], steps, strict=True)]
            return [i + length, first.like(0), *ahead, *now]

        start = [places[-1], *places[1:-1], *offsets]
        walk(f, count, start, stretch)
        f.ret_void()
        return f

    def write(self, place: Value, start: Index, step: Index, length: Index) -> None:
        """start, start + step ...; up to `GROUP` - 1 more than `length`."""
        f = self.f
        lanes = ", ".join(f"i64 {i}" for i in range(GROUP))
        ramp = SimdExpr(f, Value(ir.VectorType(I64, GROUP), f"<{lanes}>"))
        first = SimdExpr(f, f.broadcast(start.value, GROUP)) + ramp * SimdExpr(
            f, f.broadcast(step.value, GROUP)
        )
        with loop(f, length, GROUP) as i:
            values = first + SimdExpr(f, f.broadcast((i * step).value, GROUP))
            f.store(values.value, address(f, place, i, I64))

    def coordinates(self, sizes: list[Index]) -> list[Index]:
        """The coordinates of `start` in each dimension."""
        rest, found = self.f.index("start"), []
        for size in reversed(sizes[1:]):
            found.append(remainder(rest, size))
            rest = SimdExpr(self.f, self.f.udiv(rest.value, size.value))
        return [rest, *reversed(found)]

    def moves(self, sizes: list[Index], strides: list[Index]) -> list[Index]:
        """The distances to the next element where the innermost 0, 1, 2 ... dimensions start again."""
        found, back = [strides[-1]], SimdExpr(self.f, integer(0))
        for d in range(len(sizes) - 1, 0, -1):
            back = back + (sizes[d] - 1) * strides[d]
            found.append(strides[d - 1] - back)
        return found

    def following(self, now: list[Index], sizes: list[Index]) -> tuple[list[Index], list[SimdExpr]]:
        """The coordinates of the next element, and which dimensions start again, the innermost first."""
        carry = SimdExpr(self.f, Value(I1, "true"))
        ahead: list[Index] = []
        transposed: list[SimdExpr] = []
        for place, size in zip(reversed(now), reversed(sizes[1:]), strict=True):
            over = carry & place.equals(size - 1)
            ahead.append(over.where(place.like(0), carry.where(place + 1, place)))
            transposed.append(over)
            carry = over
        return ahead[::-1], transposed

    @staticmethod
    def chosen(transposed: list[SimdExpr], moves: list[Index]) -> Index:
        step = moves[0]
        for over, move in zip(transposed, moves[1:], strict=True):
            step = over.where(move, step)
        return step


class Runs:
    """Writes the function that describes the runs of up to a vector of offsets."""

    def __init__(self, module: ir.Module, name: str, spec: Spec) -> None:
        self.lanes = spec.lanes
        parameters = [("offsets", POINTER), ("count", I64), ("step", I64), ("record", POINTER)]
        self.f = LocalFunction(module, name, parameters)

    def build(self) -> LocalFunction:
        f, lanes = self.f, self.lanes
        record = f.arguments["record"]
        for word in range(record_size(lanes)):
            f.store(integer(0), address(f, record, word, I64))
        with alternatives(f, self.is_one_run()) as bodies:
            next(bodies)
            self.one_run()
            next(bodies)
            with loop(f, f.index("count")) as lane:
                self.add(lane)
            next(bodies, None)
        f.ret_void()
        return f

    def is_one_run(self) -> SimdExpr:
        """True (in the kernel) if a whole vector of offsets is one forward run."""
        f, lanes = self.f, self.lanes
        wide = ir.VectorType(I64, lanes)
        offsets = SimdExpr(f, f.load(f.arguments["offsets"], typ=wide))
        ramp = SimdExpr(f, Value(wide, "<" + ", ".join(f"i64 {i}" for i in range(lanes)) + ">"))
        first, step = (
            SimdExpr(f, f.broadcast(v.value, lanes))
            for v in (self.word(f.arguments["offsets"], 0), f.index("step"))
        )
        same = f.bitcast((offsets - first).equals(ramp * step).value, ir.IntType(lanes))
        every = SimdExpr(f, f.icmp_signed("==", same, Value(ir.IntType(lanes), "-1")))
        return every & f.index("count").equals(lanes) & (f.index("step") > 0)

    def one_run(self) -> None:
        f, record = self.f, self.f.arguments["record"]
        masks = [sum(1 << step * i for i in range(self.lanes)) for step in (1, 2)]
        mask = f.index("step").equals(1).where(f.index("step").like(masks[0]), masks[1])
        words = integer(1), self.word(f.arguments["offsets"], 0).value, mask.value
        for word, value in enumerate(words):
            f.store(value, address(f, record, word, I64))

    def add(self, lane: Index) -> None:
        """One more offset: to the last run, or the first of a new one."""
        f, lanes = self.f, self.lanes
        step, record = f.index("step"), f.arguments["record"]
        back = step.equals(-1)
        offset = self.word(f.arguments["offsets"], lane)
        last = self.word(f.arguments["offsets"], (lane > 0).where(lane - 1, lane))
        new = lane.equals(0) | ((offset - last).equals(step) ^ 1)
        runs = self.word(record, 0) + SimdExpr(f, f.zext(new.value, I64))
        f.store(runs.value, address(f, record, 0, I64))
        start = offset - lane * step - back.where(lane.like(lanes - 1), lane.like(0))
        f.store(start.value, address(f, record, runs * 2 - 1, I64))
        bit = back.where(lane.like(lanes - 1) - lane, step.equals(2).where(lane * 2, lane))
        mask = address(f, record, runs * 2, I64)
        one = f.shl(integer(1), bit.value)
        f.store(f.or_(f.load(mask, typ=I64), one), mask)

    def word(self, base: Value, index: Index | int) -> Index:
        return SimdExpr(self.f, self.f.load(address(self.f, base, index, I64), typ=I64))


class Reader(LocalFunction):
    """The common part of `Copy` and `Turn`: choosing a loop by the number of runs, and reading a vector by them."""

    def __init__(
        self, module: ir.Module, name: str, spec: Spec, parameters: Sequence[tuple[str, ir.Type]]
    ) -> None:
        super().__init__(module, name, parameters)
        self.spec, self.lanes, self.element = spec, spec.lanes, spec.number.compute

    def word(self, base: Value, index: Index | int) -> Index:
        return SimdExpr(self, self.load(address(self, base, index, I64), typ=I64))

    def choose(
        self,
        steps: tuple[int, ...],
        counts: tuple[int, ...],
        body: Callable[[int, int], None],
        rest: Callable[[], None],
    ) -> None:
        """`body(step, count)` for the step and the number of runs at hand, or `rest()` where there are too many."""
        runs = self.word(self.arguments["record"], 0)
        done = self.append_basic_block("chosen")
        for step in steps:
            for count in counts:
                yes, no = self.append_basic_block("runs"), self.append_basic_block("other")
                fits = self.index("step").equals(step) & (runs <= count)
                self.cbranch(fits.value, yes, no)
                self.position_at_end(yes)
                body(step, count)
                self.branch(done)
                self.position_at_end(no)
        rest()
        self.branch(done)
        self.position_at_end(done)
        self.ret_void()

    def vectors(self, step: int, count: int) -> Callable[[Value], Value]:
        """A function that reads the vector whose place on the other axis is given."""
        masks, starts = [], []
        half = ir.IntType(self.lanes)
        for run in range(count):
            starts.append(self.word(self.arguments["record"], 1 + 2 * run))
            word = self.word(self.arguments["record"], 2 + 2 * run).value
            parts = [word] if abs(step) == 1 else [word, self.lshr(word, integer(self.lanes))]
            bits = ir.VectorType(I1, self.lanes)
            masks.append([self.bitcast(self.trunc(part, half), bits) for part in parts])
        return lambda place: self.read(place, step, starts, masks)

    def read(self, place: Value, step: int, starts: list[Index], masks: list[list[Value]]) -> Value:
        zero = Value(self.spec.vector, "zeroinitializer")
        found = [zero] * len(masks[0])
        for start, parts in zip(starts, masks, strict=True):
            at = address(self, place, start, self.element)
            for number, mask in enumerate(parts):
                piece = address(self, at, number * self.lanes, self.element) if number else at
                found[number] = self.masked(piece, mask, found[number])
        if step == -1:
            return self.shuffle(found[0], found[0], range(self.lanes - 1, -1, -1))
        if step == 2:
            return self.shuffle(found[0], found[1], range(0, 2 * self.lanes, 2))
        return found[0]

    def masked(self, place: Value, mask: Value, otherwise: Value) -> Value:
        kind = "f64" if self.spec.size == 8 else "f32"
        name = f"llvm.masked.load.v{self.lanes}{kind}.p0"
        align = integer(self.spec.size, I32)
        return self.intrinsic(name, self.spec.vector, [place, align, mask, otherwise])

    def singly(self, i: Index, lane: Index, offset: Index, target: Value) -> None:
        """One element, whose offset on the vector's axis is given."""
        place = self.word(self.arguments["table"], i) + offset
        value = self.load(
            address(self, self.arguments["source"], place, self.element), typ=self.element
        )
        self.store(value, target)


PARAMETERS = (
    ("source", POINTER),
    ("table", POINTER),
    ("count", I64),
    ("record", POINTER),
    ("offsets", POINTER),
    ("lanes", I64),
    ("step", I64),
    ("target", POINTER),
    ("target_stride", I64),
)


class Copy(Reader):
    """target[i * target_stride + lane] = source[table[i] + offsets[lane]]; lanes beyond `lanes` may be written."""

    def __init__(self, module: ir.Module, name: str, spec: Spec) -> None:
        super().__init__(module, name, spec, PARAMETERS)

    def build(self) -> Copy:
        self.choose(RUN_STEPS, RUN_COUNTS, self.by_runs, self.one_by_one)
        return self

    def target(self, i: Index) -> Value:
        return address(
            self, self.arguments["target"], i * self.index("target_stride"), self.element
        )

    def by_runs(self, step: int, count: int) -> None:
        read = self.vectors(step, count)
        with loop(self, self.index("count")) as i:
            place = address(
                self, self.arguments["source"], self.word(self.arguments["table"], i), self.element
            )
            self.store(read(place), self.target(i), align=self.spec.size)

    def one_by_one(self) -> None:
        with loop(self, self.index("count")) as i:
            target = self.target(i)
            with loop(self, self.index("lanes")) as lane:
                offset = self.word(self.arguments["offsets"], lane)
                self.singly(i, lane, offset, address(self, target, lane, self.element))


class Turn(Reader):
    """target[lane * target_stride + i] = source[table[i] + offsets[lane]] for up to a vector of i: squares are turned
    in registers. Whole squares may be written."""

    def __init__(self, module: ir.Module, name: str, spec: Spec) -> None:
        super().__init__(module, name, spec, PARAMETERS)

    def build(self) -> Turn:
        self.choose((1, 2), RUN_COUNTS[:3], self.by_runs, self.one_by_one)
        return self

    def target(self, lane: Index | int) -> Value:
        stride = self.index("target_stride") * lane
        return address(self, self.arguments["target"], stride, self.element)

    def by_runs(self, step: int, count: int) -> None:
        read, lines = self.vectors(step, count), []
        last = self.index("count") - 1
        for i in range(self.lanes):
            at = self.word(self.arguments["table"], minimum(last.like(i), last))
            lines.append(read(address(self, self.arguments["source"], at, self.element)))
        for lane, vector in enumerate(transpose(self, lines, self.spec.size)):
            self.store(vector, self.target(lane), align=self.spec.size)

    def one_by_one(self) -> None:
        with loop(self, self.index("lanes")) as lane:
            target, offset = self.target(lane), self.word(self.arguments["offsets"], lane)
            with loop(self, self.index("count")) as i:
                self.singly(i, lane, offset, address(self, target, i, self.element))


class Spread(LocalFunction):
    """Writes a vector of C to its columns' addresses, run by run."""

    def __init__(self, module: ir.Module, name: str, spec: Spec) -> None:
        super().__init__(
            module, name, (("vector", POINTER), ("record", POINTER), ("target", POINTER))
        )
        self.spec = spec

    def build(self) -> Spread:
        spec, element = self.spec, self.spec.number.compute
        vector = self.load(self.arguments["vector"], typ=spec.vector, align=spec.size)
        record = self.arguments["record"]
        kind = "f64" if spec.size == 8 else "f32"
        name = f"llvm.masked.store.v{spec.lanes}{kind}.p0"
        with loop(self, SimdExpr(self, self.load(record, typ=I64))) as run:
            start, mask = (
                self.load(address(self, record, run * 2 + word, I64), typ=I64) for word in (1, 2)
            )
            bits = self.trunc(mask, ir.IntType(spec.lanes))
            lanes = self.bitcast(bits, ir.VectorType(I1, spec.lanes))
            place = address(self, self.arguments["target"], SimdExpr(self, start), element)
            align = integer(spec.size, I32)
            self.intrinsic(name, ir.VoidType(), [vector, place, align, lanes])
        self.ret_void()
        return self


class LineCopy(LocalFunction):
    """Copies `count` contiguous elements."""

    def __init__(self, module: ir.Module, name: str, spec: Spec) -> None:
        super().__init__(module, name, (("source", POINTER), ("count", I64), ("target", POINTER)))
        self.spec = spec

    def build(self) -> LineCopy:
        count, lanes = self.index("count"), self.spec.lanes
        whole = count & -lanes
        with loop(self, whole, lanes) as i:
            self.copy(i, self.spec.vector)
        with loop(self, count, start=whole) as i:
            self.copy(i, self.spec.number.compute)
        self.ret_void()
        return self

    def copy(self, i: Index, form: ir.Type) -> None:
        source, target = (
            address(self, self.arguments[name], i, self.spec.number.compute)
            for name in ("source", "target")
        )
        self.store(self.load(source, typ=form, align=self.spec.size), target, align=self.spec.size)
