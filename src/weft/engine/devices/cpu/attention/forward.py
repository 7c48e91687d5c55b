"""The forward kernel: a unit is a block of query rows of one head, which meets the keys tile by tile."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from weft.engine.devices.cpu.attention.choose import LARGEST, PANELS
from weft.engine.devices.cpu.attention.frame import FAR, AttentionFrame, AttentionRows, larger
from weft.engine.devices.cpu.elementary.exponential import exp
from weft.engine.devices.cpu.elementary.expressions import SimdExpr, fma
from weft.engine.devices.cpu.gemm.code import (
    Index,
    LocalFunction,
    address,
    loop,
    minimum,
    number,
    quotient,
    remainder,
    when,
)
from weft.engine.devices.cpu.gemm.spec import Spec
from weft.engine.devices.cpu.llvm.builder import I1, I64, POINTER, Builder, Value
from weft.engine.kernels.reduction_order import ATTENTION_KEYS, LANES


class Weigh(AttentionRows):
    """Scores of some rows become powers, in place; what the rows carry is brought up to date."""

    def __init__(self, frame: AttentionFrame) -> None:
        carried = [(key, POINTER) for key in ("scores", "peaks", "totals", "sums")]
        super().__init__(frame, "weigh", [*carried, ("width", I64), ("again", I1)])
        self.tops, self.shifts, self.scales = (
            self.f.alloca(ir.ArrayType(self.element, LANES)) for _ in range(3)
        )
        self.row_stride = frame.spec.a_stride

    def build(self) -> LocalFunction:
        f = self.f
        with loop(f, f.index("count")) as row:
            self.find_top(row)
        self.find_scales()
        with loop(f, f.index("count")) as row:
            self.raise_row(row)
        with when(f, SimdExpr(f, f.arguments["again"])), loop(f, f.index("count")) as row:
            scale = self.every(self.scales, row)
            with loop(f, f.index("width"), LANES) as column:
                place = self.given("sums", row, LARGEST, column)
                self.store(self.load(place) * scale, place)
        f.ret_void()
        return f

    def find_top(self, row: Index) -> None:
        """The largest of a row's scores and of those before."""
        f = self.f
        place = self.given("scores", row, self.row_stride)
        scores = self.scores(row, place)
        for i, score in enumerate(scores):
            self.store(score, address(f, place, i * LANES, self.element))
        top = larger(larger(scores[0], scores[1]), larger(scores[2], scores[3]))
        top = larger(self.every(f.arguments["peaks"], row), self.folded(top, larger))
        self.keep(top, self.tops, row)

    def keep(self, value: SimdExpr, base: Value, row: Index) -> None:
        """One lane of a value that is the same in all."""
        f = self.f
        one = f.extract_element(value.value, Value(ir.IntType(32), "0"))
        f.store(one, address(f, base, row, self.element))

    def find_scales(self) -> None:
        """For all rows at once: what is taken off their scores, and what earlier sums are multiplied by."""
        before, top = self.load(self.f.arguments["peaks"]), self.load(self.tops)
        shift = top.equals(-FAR).where(0.0, top)
        self.store(shift, self.shifts)
        self.store(exp(before + -shift), self.scales)

    def raise_row(self, row: Index) -> None:
        f = self.f
        place = self.given("scores", row, self.row_stride)
        shift = self.every(self.shifts, row)
        powers = []
        for start in range(0, ATTENTION_KEYS, LANES):
            piece = address(f, place, start, self.element)
            powers.append(exp(self.load(piece) + -shift))
            self.store(powers[-1], piece)
        total = self.given("totals", row, LANES)
        new = powers[0] + powers[1] + powers[2] + powers[3]
        self.store(fma(self.load(total), self.every(self.scales, row), new), total)
        self.keep(self.every(self.tops, row), f.arguments["peaks"], row)


class Finish(AttentionRows):
    """Turn the running sums of the rows into results, in place, and store the statistics that the gradient needs."""

    def __init__(self, frame: AttentionFrame) -> None:
        carried = [(key, POINTER) for key in ("peaks", "totals", "sums", "stats")]
        super().__init__(frame, "finish", [*carried, ("width", I64)])

    def build(self) -> LocalFunction:
        f = self.f
        with loop(f, f.index("count")) as row:
            folded = self.folded(self.load(self.given("totals", row, LANES)), lambda a, b: a + b)
            share = 1.0 / folded.equals(0.0).where(1.0, folded)
            peak = self.every(f.arguments["peaks"], row)
            shift = peak.equals(-FAR).where(0.0, peak)
            for number_of, value in enumerate((shift, share)):
                one = f.extract_element(value.value, Value(ir.IntType(32), "0"))
                f.store(one, self.given("stats", row, 2, number_of))
            with loop(f, f.index("width"), LANES) as column:
                place = self.given("sums", row, LARGEST, column)
                self.store(self.load(place) * share, place)
        f.ret_void()
        return f


class Forward(AttentionFrame):
    """Writes the kernel."""

    PANELS = PANELS

    def __init__(self, module: ir.Module, name: str, spec: Spec, masked: bool) -> None:
        super().__init__(module, name, "forward", spec, masked)
        self.weigh, self.finish = Weigh(self), Finish(self)
        self.parts += [self.weigh.build(), self.finish.build()]
        self.queries = self.room((self.block + LANES) * spec.a_stride)
        self.keys = self.packed(LARGEST, ATTENTION_KEYS)
        self.values = self.packed(ATTENTION_KEYS, LARGEST)
        self.scores = self.room(spec.rows * spec.a_stride)
        self.sums = self.room(self.block * LARGEST)
        self.peaks = self.room(self.block + LANES)
        self.totals = self.room(self.block * LANES)

    def build(self) -> list[Builder]:
        f = self.f
        begin, end = SimdExpr(f, f.arguments["begin"]), SimdExpr(f, f.arguments["end"])
        blocks = quotient(self.sizes["rows"] + (self.block - 1), self.block)
        with loop(f, end, start=begin) as unit:
            heads = quotient(unit, blocks)
            head, rest = remainder(heads, self.sizes["heads"]), quotient(heads, self.sizes["heads"])
            outer, inner = quotient(rest, self.sizes["inner"]), remainder(rest, self.sizes["inner"])
            first = remainder(unit, blocks) * self.block
            self.unit((outer, inner, head), first)
        f.ret_void()
        return [*self.parts, f]

    def unit(self, matrix: tuple[Index, ...], first: Index) -> None:
        f, sizes = self.f, self.sizes
        outer, inner, head = matrix
        shared = (outer, inner, quotient(head, sizes["group"]))
        count = minimum(sizes["rows"] - first, self.block)
        self.pack_rows("query", (*matrix, first), count, sizes["depth"], self.queries)
        self.start(count)
        with loop(f, self.stop(first + count), ATTENTION_KEYS) as key:
            keys = minimum(sizes["keys"] - key, ATTENTION_KEYS)
            self.pack_transposed("key", (*shared, key), keys, sizes["depth"], self.keys)
            self.pack_columns(
                "value", (*shared, key), keys, sizes["width"], self.values, ATTENTION_KEYS
            )
            with loop(f, count, self.spec.rows, self.first_panel(first, key)) as row:
                self.tile(matrix, first, row, minimum(count - row, self.spec.rows), key, keys)
        self.end(matrix, first, count)

    def start(self, count: Index) -> None:
        f = self.f
        vector = ir.VectorType(self.element, LANES)
        zero = SimdExpr(f, Value(vector, "zeroinitializer"))
        with loop(f, count, LANES) as row:
            f.store(zero.like(-FAR).value, self.inside(self.peaks, row), align=self.spec.size)
        with loop(f, count) as row:
            f.store(zero.value, self.inside(self.totals, row * LANES), align=self.spec.size)

    def tile(
        self, matrix: tuple[Index, ...], first: Index, row: Index, count: Index, key: Index, keys: Index
    ) -> None:  # fmt: skip
        """A panel of rows and a tile of keys."""
        f, sizes = self.f, self.sizes
        stride, later = self.spec.a_stride, key > 0
        never = SimdExpr(f, Value(I1, "false"))
        queries = self.inside(self.queries, row * stride)
        self.times(
            self.multiply, count, queries, self.keys, LARGEST, sizes["depth"], keys, self.scores,
            stride, never,
        )  # fmt: skip
        sums = self.inside(self.sums, row * LARGEST)
        self.weigh.f.invoke(
            f, *self.walk(matrix, first + row, count, key, keys), self.scores,
            self.inside(self.peaks, row), self.inside(self.totals, row * LANES), sums,
            sizes["width"], later,
        )  # fmt: skip
        self.times(
            self.multiply, count, self.scores, self.values, ATTENTION_KEYS, keys, sizes["width"], sums,
            LARGEST, later,
        )  # fmt: skip

    def end(self, matrix: tuple[Index, ...], first: Index, count: Index) -> None:
        f, width = self.f, self.sizes["width"]
        nothing: list[Any] = self.walk(matrix, first, count, number(f, 0), number(f, 0))
        stats = self.inside(self.at("stats", *matrix), first * 2)
        self.finish.f.invoke(f, *nothing, self.peaks, self.totals, self.sums, stats, width)
        with loop(f, count) as row:
            source = self.inside(self.sums, row * LARGEST)
            target = self.at("out", *matrix, first + row)
            self.put.invoke(f, source, width, target, number(f, 1))
