"""The register tile (microkernel): rows x columns of C accumulated over a packed block of K.

It takes a packed panel of A (one row after another, or one plane after another for complex), a panel of B (the columns
of one k contiguous, `b_stride` elements from k to k), and the tile's address in C or in a buffer. The accumulators
start from zero or carry on from the tile; a bias that the tiles add comes last, if it is asked for. A tile of several
heights is told its rows; those beyond compute with whatever memory holds, and write to the first row's address, which
is written last. One step of k is one fused multiply-add per element; for complex numbers the real part takes ar*br,
then -ai*bi, the imaginary part ar*bi, then ai*br.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from weft.engine.devices.cpu.elementary.expressions import SimdExpr
from weft.engine.devices.cpu.gemm.code import (
    Index,
    LocalFunction,
    address,
    ceiling,
    ceiling_by,
    either,
    fma,
    number,
)
from weft.engine.devices.cpu.gemm.spec import Spec
from weft.engine.devices.cpu.llvm.builder import I1, I64, POINTER, Block, Builder, Value, integer

PARAMETERS = (
    ("a", POINTER),
    ("b", POINTER),
    ("b_stride", I64),
    ("depth", I64),
    ("out", POINTER),
    ("out_stride", I64),
    ("carry", I1),
)
SHIFT = (("bias", POINTER), ("shift", I1))  # parameters after the others if `spec.shifts`
ROWS = ("rows", I64)  # a parameter before the others if there are several heights


class Micro:
    """Writes the function for `rows` rows, or for `least` up to as many."""

    parameters: tuple[tuple[str, Any], ...] = PARAMETERS

    def __init__(self, module: ir.Module, name: str, spec: Spec, rows: int, least: int = 0) -> None:
        self.spec, self.rows, self.least = spec, rows, least or rows
        self.planes = spec.number.planes
        self.function = LocalFunction(module, name, parameters_of(type(self), spec))
        self.element, self.vector = spec.number.compute, spec.vector

    def tile(self) -> list[tuple[int, int]]:
        """(row, offset) of every vector of the tile, all planes."""
        per_row = self.spec.vectors * self.planes
        return [(r, v * self.spec.lanes) for r in range(self.rows) for v in range(per_row)]

    def places(self) -> list[Value]:
        f, out = self.function, self.function.arguments["out"]
        stride = f.index("out_stride")
        starts = [address(f, out, stride * r if r else 0, self.element) for r in range(self.rows)]
        for r in range(self.least, self.rows):
            starts[r] = either(f, f.index("rows") > r, starts[r], starts[0])
        return [address(f, starts[r], offset, self.element) for r, offset in self.tile()]

    def build(self) -> LocalFunction:
        f = self.function
        places = self.places()
        entry = f.block
        carry, head, body, done = (
            f.append_basic_block(name) for name in ("carry", "head", "body", "done")
        )
        f.cbranch(f.arguments["carry"], carry, head)
        f.position_at_end(carry)
        loaded = [f.load(place, typ=self.vector, align=self.spec.size) for place in places]
        f.branch(head)
        f.position_at_end(head)
        zero = Value(self.vector, "zeroinitializer")
        starts = []
        for value in loaded:
            start = f.phi(self.vector)
            start.add_incoming(zero, entry)
            start.add_incoming(value, carry)
            starts.append(start)
        nothing = f.icmp_signed("<=", f.arguments["depth"], integer(0))
        f.cbranch(nothing, done, body)
        sums = self.steps(head, body, done, starts)
        end = f.block
        f.position_at_end(done)
        results: list[tuple[Value, Value]] = []
        for start, total, place in zip(starts, sums, places, strict=True):
            last = f.phi(self.vector)
            last.add_incoming(start, head)
            last.add_incoming(total, end)
            results.append((last, place))
        self.store(results)
        return f

    def store(self, results: list[tuple[Value, Value]]) -> None:
        """Write the tile, the first row last, with the bias where it is asked for, and return."""
        f, spec = self.function, self.spec
        last_first = list(enumerate(results))[::-1]
        if spec.shifts:
            shifted, plain = f.append_basic_block("shifted"), f.append_basic_block("plain")
            f.cbranch(f.arguments["shift"], shifted, plain)
            f.position_at_end(shifted)
            places = [
                address(f, f.arguments["bias"], v * spec.lanes, self.element)
                for v in range(spec.vectors)
            ]
            bias = [f.load(place, typ=self.vector, align=spec.size) for place in places]
            for number, (value, place) in last_first:
                f.store(f.fadd(value, bias[number % spec.vectors]), place, align=spec.size)
            f.ret_void()
            f.position_at_end(plain)
        for _, (value, place) in last_first:
            f.store(value, place, align=spec.size)
        f.ret_void()

    def steps(self, head: Block, body: Block, done: Block, starts: Sequence[Value]) -> list[Value]:
        """All k, from the block `body`, which follows `head`, to a branch to `done`."""
        f = self.function
        f.position_at_end(body)
        k, b, *sums = (f.phi(type_) for type_ in (I64, POINTER, *[self.vector] * len(starts)))
        following = self.step(SimdExpr(f, k), b, list(sums))
        after = f.add(k, integer(1))
        onward = address(f, b, f.index("b_stride"), self.element)
        phis = (k, b, *sums)
        first = (integer(0), f.arguments["b"], *starts)
        for phi, start, value in zip(phis, first, (after, onward, *following), strict=True):
            phi.add_incoming(start, head)
            phi.add_incoming(value, body)
        f.cbranch(f.icmp_signed("<", after, f.arguments["depth"]), body, done)
        return following

    def step(self, k: SimdExpr, b: Value, sums: list[Value]) -> list[Any]:
        """One k: the new accumulators."""
        f, spec = self.function, self.spec
        count = spec.vectors * self.planes
        columns = [
            f.load(place, typ=self.vector, align=spec.size) for place in self.places_of_b(k, b)
        ]
        step = spec.a_step
        place = address(f, f.arguments["a"], k if step == 1 else k * step, self.element)
        row_step: Callable[..., list[Any]] = self.complex_row if self.planes == 2 else self.real_row
        result: list[Any] = []
        for row in range(self.rows):
            result += row_step(place, row, columns, sums[row * count : (row + 1) * count])
        return result

    def places_of_b(self, k: SimdExpr, b: Value) -> list[Value]:
        """The addresses of the vectors of B at one k."""
        count, lanes = self.spec.vectors * self.planes, self.spec.lanes
        return [address(self.function, b, v * lanes, self.element) for v in range(count)]

    def broadcast(self, place: Value, offset: int) -> Value:
        f = self.function
        one = f.load(address(f, place, offset, self.element), typ=self.element)
        return f.broadcast(one, self.spec.lanes)

    def real_row(
        self, place: Value, row: int, columns: list[Value], sums: list[Value]
    ) -> list[Any]:
        a = self.broadcast(place, row * self.spec.a_stride)
        pairs = zip(columns, sums, strict=True)
        return [fma(self.function, self.vector, a, b, total) for b, total in pairs]

    def complex_row(
        self, place: Value, row: int, columns: list[Value], sums: list[Value]
    ) -> list[Any]:
        f, vector, half = self.function, self.vector, self.spec.vectors
        real = self.broadcast(place, row * self.spec.a_stride)
        imag = self.broadcast(place, row * self.spec.a_stride + self.spec.a_plane)
        minus = f.fneg(imag)
        b_real, b_imag = columns[:half], columns[half:]
        # Where A and B have changed places, so have the two terms of the imaginary part.
        terms = (real, b_imag), (imag, b_real)
        first, second = reversed(terms) if self.spec.swapped else terms
        reals = [fma(f, vector, real, b, s) for b, s in zip(b_real, sums[:half], strict=True)]
        reals = [fma(f, vector, minus, b, s) for b, s in zip(b_imag, reals, strict=True)]
        imags = [fma(f, vector, first[0], b, s) for b, s in zip(first[1], sums[half:], strict=True)]
        imags = [fma(f, vector, second[0], b, s) for b, s in zip(second[1], imags, strict=True)]
        return reals + imags


class Straight(Micro):
    """The same with B in place: the offsets of each k and of each vector of columns come from tables."""

    parameters = (*PARAMETERS, ("places", POINTER), ("columns", POINTER))

    def build(self) -> LocalFunction:
        f, lanes = self.function, self.spec.lanes
        self.starts = []
        for v in range(self.spec.vectors):
            start = f.load(address(f, f.arguments["columns"], v * lanes, I64), typ=I64)
            self.starts.append(address(f, f.arguments["b"], SimdExpr(f, start), self.element))
        return super().build()

    def places_of_b(self, k: SimdExpr, b: Value) -> list[Value]:
        f = self.function
        place = SimdExpr(f, f.load(address(f, f.arguments["places"], k, I64), typ=I64))
        return [address(f, start, place, self.element) for start in self.starts]


def parameters_of(kind: type[Micro], spec: Spec) -> tuple[tuple[str, Any], ...]:
    """The parameters of a kind of tile."""
    leading = () if spec.exact else (ROWS,)
    return (*leading, *kind.parameters, *SHIFT) if spec.shifts else (*leading, *kind.parameters)


def row_panel(
    module: ir.Module, name: str, spec: Spec, kind: type[Micro] = Micro
) -> tuple[LocalFunction, list[Builder]]:
    """The function for any number of rows up to the full tile's, and all that it is made of."""
    bounds = zip(spec.heights, (*spec.heights[1:], 0), strict=True)
    tiles = [
        (kind(module, f"{name}{rows}", spec, rows, 0 if spec.exact else below + 1).build(), below)
        for rows, below in bounds
    ]
    parts: list[Builder] = [tile for tile, _ in tiles]
    if spec.exact:
        return tiles[0][0], parts
    f = LocalFunction(module, f"{name}.rows", parameters_of(kind, spec))
    for tile, below in tiles:
        yes, after = f.append_basic_block("then"), f.append_basic_block("after")
        f.cbranch((f.index("rows") > below).value, yes, after)
        f.position_at_end(yes)
        tile.invoke(f, *f.arguments.values())
        f.ret_void()
        f.position_at_end(after)
    f.ret_void()
    return f, [*parts, f]


def height_of_tiles(f: Builder, spec: Spec, rows: Index) -> Index:
    """Rows of each tile but the last one, so that `rows` are divided into as few and as equal tiles as there are."""
    tiles = ceiling(rows, spec.rows)
    equal = ceiling_by(rows, (tiles < 1).where(1, tiles))
    height = number(f, spec.rows)
    for lower in spec.heights[1:]:
        height = (equal <= lower).where(lower, height)
    return height
