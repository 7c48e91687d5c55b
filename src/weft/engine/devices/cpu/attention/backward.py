"""The backward kernel: a unit is one head of keys and values, with all query heads that share it.

Blocks of query rows meet the keys tile by tile.  The gradient of a block's queries is carried in a
buffer; those of keys and values are carried in the results themselves, from tile to tile.
"""

from __future__ import annotations

from llvmlite import ir

from weft.engine.devices.cpu.attention.choose import LARGEST
from weft.engine.devices.cpu.attention.frame import AttentionFrame, AttentionRows, across
from weft.engine.devices.cpu.elementary.exponential import exp
from weft.engine.devices.cpu.elementary.expressions import SimdExpr, fma
from weft.engine.devices.cpu.gemm.code import (
    Index,
    LocalFunction,
    address,
    lane_mask,
    loop,
    masked_load,
    minimum,
    number,
    quotient,
    remainder,
)
from weft.engine.devices.cpu.gemm.microkernel import row_panel
from weft.engine.devices.cpu.gemm.spec import Spec
from weft.engine.devices.cpu.llvm.builder import I1, I64, POINTER, Builder, Value
from weft.engine.kernels.reduction_order import ATTENTION_KEYS, LANES


class AttentionSpread(AttentionRows):
    """Scores become probabilities, cotangents of probabilities those of unscaled scores, in place."""

    def __init__(self, frame: AttentionFrame) -> None:
        places = [(key, POINTER) for key in ("scores", "slopes", "stats", "dots")]
        super().__init__(frame, "spread", places)

    def build(self) -> LocalFunction:
        f, stride = self.f, self.frame.spec.a_stride
        scale = SimdExpr(f, f.broadcast(f.arguments["scale"], LANES))
        with loop(f, f.index("count")) as row:
            place = self.given("scores", row, stride)
            shift = self.every(f.arguments["stats"], row * 2)
            share = self.every(f.arguments["stats"], row * 2 + 1)
            dot = self.every(f.arguments["dots"], row)
            for i, score in enumerate(self.scores(row, place)):
                weight = exp(score + -shift) * share
                self.store(weight, address(f, place, i * LANES, self.element))
                slope = self.given("slopes", row, stride, i * LANES)
                self.store(weight * (self.load(slope) + -dot) * scale, slope)
        f.ret_void()
        return f


class Dots(AttentionRows):
    """The inner product of each row of the result and of its cotangent."""

    def __init__(self, frame: AttentionFrame) -> None:
        places = [(key, POINTER) for key in ("cotangents", "out", "dots")]
        super().__init__(frame, "dots", [*places, ("out_stride", I64), ("width", I64)])

    def build(self) -> LocalFunction:
        f, stride = self.f, self.frame.spec.a_stride
        partial = f.alloca(ir.ArrayType(self.element, LANES))
        zero = SimdExpr(f, Value(self.vector, "zeroinitializer"))
        with loop(f, f.index("count")) as row:
            self.store(zero, partial)
            with loop(f, f.index("width"), LANES) as column:
                mask = lane_mask(f, LANES, f.index("width") - column)
                places = (
                    self.given("cotangents", row, stride, column),
                    address(
                        f, f.arguments["out"], row * f.index("out_stride") + column, self.element
                    ),
                )
                a, b = (
                    SimdExpr(f, masked_load(f, self.vector, place, mask, self.spec.size))
                    for place in places
                )
                self.store(fma(a, b, self.load(partial)), partial)
            dot = self.folded(self.load(partial), lambda a, b: a + b)
            one = f.extract_element(dot.value, Value(ir.IntType(32), "0"))
            f.store(one, address(f, f.arguments["dots"], row, self.element))
        f.ret_void()
        return f


class Backward(AttentionFrame):
    """Writes the kernel."""

    PANELS = 5

    def __init__(self, module: ir.Module, name: str, spec: Spec, masked: bool) -> None:
        super().__init__(module, name, "backward", spec, masked)
        self.multiply_across, more = row_panel(module, f"{name}.across", across(spec))
        self.spread, self.dots = AttentionSpread(self), Dots(self)
        self.parts += [*more, self.spread.build(), self.dots.build()]
        rows, stride = self.block, spec.a_stride
        self.queries, self.cotangents = (self.room((rows + LANES) * stride) for _ in range(2))
        self.weights, self.slopes = (self.room(rows * stride) for _ in range(2))
        self.query_columns, self.cotangent_columns = (self.packed(rows, LARGEST) for _ in range(2))
        self.keys, self.values = (self.packed(LARGEST, ATTENTION_KEYS) for _ in range(2))
        self.key_columns = self.packed(ATTENTION_KEYS, LARGEST)
        self.sums, self.carried = self.room(rows * LARGEST), self.room(ATTENTION_KEYS * LARGEST)
        self.products_of_rows = self.room(rows)

    def build(self) -> list[Builder]:
        f, sizes = self.f, self.sizes
        begin, end = SimdExpr(f, f.arguments["begin"]), SimdExpr(f, f.arguments["end"])
        with loop(f, end, start=begin) as unit:
            head, rest = remainder(unit, sizes["heads"]), quotient(unit, sizes["heads"])
            shared = (quotient(rest, sizes["inner"]), remainder(rest, sizes["inner"]), head)
            self.clear("d_key", shared, sizes["depth"])
            self.clear("d_value", shared, sizes["width"])
            with (
                loop(f, sizes["group"]) as member,
                loop(f, sizes["rows"], self.block) as first,
            ):
                matrix = (*shared[:2], head * sizes["group"] + member)
                self.rows(matrix, shared, first)
        f.ret_void()
        return [*self.parts, f]

    def clear(self, name: str, shared: tuple[Index, ...], columns: Index) -> None:
        f = self.f
        zero = Value(self.element, "0.0")
        with loop(f, self.sizes["keys"]) as key:
            place = self.at(name, *shared, key)
            with loop(f, columns) as column:
                f.store(zero, self.inside(place, column))

    def rows(self, matrix: tuple[Index, ...], shared: tuple[Index, ...], first: Index) -> None:
        """A block of query rows of one head."""
        f, sizes = self.f, self.sizes
        count = minimum(sizes["rows"] - first, self.block)
        self.pack_block(matrix, first, count)
        with loop(f, self.stop(first + count), ATTENTION_KEYS) as key:
            keys = minimum(sizes["keys"] - key, ATTENTION_KEYS)
            place = (*shared, key)
            self.pack_transposed("key", place, keys, sizes["depth"], self.keys)
            self.pack_transposed("value", place, keys, sizes["width"], self.values)
            self.pack_columns("key", place, keys, sizes["depth"], self.key_columns, ATTENTION_KEYS)
            start = self.first_panel(first, key)
            with loop(f, count, self.spec.rows, start) as row:
                self.tile(matrix, first, row, minimum(count - row, self.spec.rows), key, keys)
            for name, left, right, columns in (
                ("d_key", self.slopes, self.query_columns, sizes["depth"]),
                ("d_value", self.weights, self.cotangent_columns, sizes["width"]),
            ):
                self.carry_on(name, place, keys, left, right, columns, start, count)
        with loop(f, count) as row:
            source = self.inside(self.sums, row * LARGEST)
            target = self.at("d_query", *matrix, first + row)
            self.put.invoke(f, source, sizes["depth"], target, number(f, 1))

    def pack_block(self, matrix: tuple[Index, ...], first: Index, count: Index) -> None:
        f, sizes, place = self.f, self.sizes, (*matrix, first)
        for name, columns, rows, panels in (
            ("query", sizes["depth"], self.queries, self.query_columns),
            ("cotangent", sizes["width"], self.cotangents, self.cotangent_columns),
        ):
            self.pack_rows(name, place, count, columns, rows)
            self.pack_columns(name, place, count, columns, panels, self.block)
        nothing = self.walk(matrix, first, count, number(f, 0), number(f, 0))
        self.dots.f.invoke(
            f, *nothing, self.cotangents, self.at("out", *place), self.products_of_rows,
            self.strides["out"][3], sizes["width"],
        )  # fmt: skip

    def tile(
        self, matrix: tuple[Index, ...], first: Index, row: Index, count: Index, key: Index, keys: Index
    ) -> None:  # fmt: skip
        """A panel of rows and a tile of keys: weights, slopes, and what they add to the queries' gradient."""
        f, sizes = self.f, self.sizes
        stride, never = self.spec.a_stride, SimdExpr(f, Value(I1, "false"))
        weights, slopes = (self.inside(base, row * stride) for base in (self.weights, self.slopes))
        for left, right, depth, out in (
            (self.queries, self.keys, sizes["depth"], weights),
            (self.cotangents, self.values, sizes["width"], slopes),
        ):
            rows = self.inside(left, row * stride)
            self.times(self.multiply, count, rows, right, LARGEST, depth, keys, out, stride, never)
        stats = self.inside(self.at("stats", *matrix), (first + row) * 2)
        self.spread.f.invoke(
            f, *self.walk(matrix, first + row, count, key, keys), weights, slopes, stats,
            self.inside(self.products_of_rows, row),
        )  # fmt: skip
        sums = self.inside(self.sums, row * LARGEST)
        self.times(
            self.multiply, count, slopes, self.key_columns, ATTENTION_KEYS, keys, sizes["depth"], sums,
            LARGEST, key > 0,
        )  # fmt: skip

    def carry_on(
        self, name: str, place: tuple[Index, ...], keys: Index, left: Value, right: Value,
        columns: Index, start: Index, count: Index,
    ) -> None:  # fmt: skip
        """Add the products of a tile's rows, from `start` on, to the gradient of its keys or values."""
        f, out = self.f, self.at(name, *place)
        row_stride, one = self.strides[name][3], number(f, 1)
        self.gather.invoke(
            f, out, row_stride, one, keys, columns, self.carried, number(f, LARGEST), number(f, 0)
        )
        rows = self.inside(left, start * self.spec.a_stride)
        panel = self.inside(right, start * self.spec.columns)
        with loop(f, keys, self.spec.rows) as key:
            self.times(
                self.multiply_across, minimum(keys - key, self.spec.rows), self.inside(rows, key),
                panel, self.block, count - start, columns, self.inside(self.carried, key * LARGEST),
                LARGEST, SimdExpr(f, Value(I1, "true")),
            )  # fmt: skip
        with loop(f, keys) as key:
            source, target = (
                self.inside(self.carried, key * LARGEST),
                self.inside(out, key * row_stride),
            )
            self.put.invoke(f, source, columns, target, one)
