"""The frame that the kernels of attention share: their arguments, the products of panels, and walks over one row's
scores.

Pointers and arguments are 64-bit numbers in the order of `POINTERS` and `arguments`; strides count elements, the scale
is the bits of a double. Leading dimensions are two, `outer` and `inner`, then come heads; `group` query heads share
one head of keys and values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from llvmlite import ir

from weft.engine.devices.cpu.attention.choose import LARGEST, panel_rows
from weft.engine.devices.cpu.elementary.expressions import SimdExpr
from weft.engine.devices.cpu.gemm.code import (
    Index,
    LocalFunction,
    address,
    buffer,
    ceiling,
    lane_mask,
    loop,
    masked_load,
    minimum,
    number,
)
from weft.engine.devices.cpu.gemm.microkernel import row_panel
from weft.engine.devices.cpu.gemm.output import Put
from weft.engine.devices.cpu.gemm.panels import PanelGather
from weft.engine.devices.cpu.gemm.spec import DEPTH, Spec
from weft.engine.devices.cpu.llvm.builder import I64, Builder, Value
from weft.engine.kernels.reduction_order import ATTENTION_KEYS, LANES

FAR = float("inf")
SIZES = ("outer", "inner", "heads", "group", "rows", "keys", "depth", "width", "causal", "scale")
MATRIX, ROWS, VECTOR = 5, 4, 3  # strides: with columns, of rows that are contiguous, of one row
POINTERS = {
    "forward": {"query": MATRIX, "key": MATRIX, "value": MATRIX, "out": ROWS, "stats": VECTOR},
    "backward": {
        "cotangent": MATRIX,
        "query": MATRIX,
        "key": MATRIX,
        "value": MATRIX,
        "out": ROWS,
        "stats": VECTOR,
        "d_query": ROWS,
        "d_key": ROWS,
        "d_value": ROWS,
    },
}


class Across(Spec):
    """Panels of A with neighbouring rows contiguous: the transpose of the scores that a tile has written."""

    @property
    def a_stride(self) -> int:
        return 1

    @property
    def a_step(self) -> int:
        return DEPTH + 16


def across(spec: Spec) -> Across:
    return Across(**{f.name: getattr(spec, f.name) for f in fields(spec) if f.init})


class AttentionFrame:
    """A kernel's builder, its functions and its arguments by name."""

    PANELS = 1

    def __init__(self, module: ir.Module, name: str, kind: str, spec: Spec, masked: bool) -> None:
        self.module, self.name, self.spec, self.masked = module, name, spec, masked
        self.element = spec.number.compute
        self.block = panel_rows(spec, self.PANELS)
        self.multiply, self.parts = row_panel(module, f"{name}.tile", spec)
        self.gather = PanelGather(module, f"{name}.gather", spec).build()
        self.put = Put(module, f"{name}.put", spec).build()
        self.parts += [self.gather, self.put]
        self.f = Builder(module, name)
        self.read_arguments({**POINTERS[kind], **({"mask": ROWS} if masked else {})})

    def read_arguments(self, strides: dict[str, int]) -> None:
        f = self.f
        self.base, self.strides, place = {}, {}, len(SIZES)
        for i, (name, count) in enumerate(strides.items()):
            pointer = address(f, f.arguments["pointers"], i, ir.PointerType())
            self.base[name] = f.load(pointer, typ=ir.PointerType())
            self.strides[name] = [self.argument(place + n) for n in range(count)]
            place += count
        self.sizes = {name: self.argument(i) for i, name in enumerate(SIZES)}
        scale = f.bitcast(self.sizes["scale"].value, ir.DoubleType())
        self.scale = SimdExpr(f, f.fptrunc(scale, self.element) if self.spec.size == 4 else scale)

    def argument(self, place: int) -> Index:
        f = self.f
        return SimdExpr(f, f.load(address(f, f.arguments["arguments"], place, I64), typ=I64))

    def room(self, count: int) -> Value:
        """Memory of this call for some elements."""
        return buffer(self.f, self.element, count)

    def at(self, name: str, *place: Index) -> Value:
        """The address of an element of an operand: outer, inner, head, row, column."""
        offset = number(self.f, 0)
        for stride, index in zip(self.strides[name], place, strict=False):
            offset = offset + stride * index
        return address(self.f, self.base[name], offset, self.element)

    def inside(self, base: Value, offset: Index | int) -> Value:
        return address(self.f, base, offset, self.element)

    def panels(self, count: Index) -> Index:
        return ceiling(count, self.spec.columns)

    # -- packing ---------------------------------------------------------------------------------

    def pack_rows(
        self, name: str, place: tuple[Index, ...], rows: Index, columns: Index, target: Value
    ) -> None:
        """Rows from `place` on as a left operand: one after another."""
        row, column = self.strides[name][3:]
        self.gather.invoke(
            self.f, self.at(name, *place), row, column, rows, columns,
            target, number(self.f, self.spec.a_stride), number(self.f, 0),
        )  # fmt: skip

    def pack_columns(
        self,
        name: str,
        place: tuple[Index, ...],
        rows: Index,
        columns: Index,
        target: Value,
        most: int,
    ) -> None:
        """Rows from `place` on as a right operand: panels of columns, each of up to `most` rows."""
        row, column = self.strides[name][3:]
        self.pack(self.at(name, *place), row, column, rows, columns, target, most)

    def pack_transposed(
        self, name: str, place: tuple[Index, ...], rows: Index, columns: Index, target: Value
    ) -> None:
        """Rows from `place` on, transposed, as a right operand."""
        row, column = self.strides[name][3:]
        self.pack(self.at(name, *place), column, row, columns, rows, target, LARGEST)

    def pack(
        self, source: Value, i_stride: Index, j_stride: Index, i_count: Index, j_count: Index,
        target: Value, most: int,
    ) -> None:  # fmt: skip
        f, columns = self.f, self.spec.columns
        with loop(f, j_count, columns) as j:
            self.gather.invoke(
                f, self.inside(source, j * j_stride), i_stride, j_stride, i_count,
                minimum(j_count - j, columns), self.inside(target, j * (most + LANES)),
                number(f, columns), number(f, 0),
            )  # fmt: skip

    def packed(self, rows: int, columns: int) -> Value:
        """Memory for a right operand of up to so many rows; packing writes whole vectors of them."""
        return self.room((rows + LANES) * -(-columns // self.spec.columns) * self.spec.columns)

    def times(
        self, multiply: LocalFunction, count: Index, left: Value, right: Value, most: int, depth: Index,
        columns: Index, out: Value, out_stride: Index | int, carry: SimdExpr,
    ) -> None:  # fmt: skip
        """Up to a panel of rows times all panels of columns of a right operand packed for `most` rows."""
        f = self.f
        stride = out_stride if isinstance(out_stride, SimdExpr) else number(f, out_stride)
        with loop(f, columns, self.spec.columns) as j:
            multiply.invoke(
                f, count, left, self.inside(right, j * (most + LANES)), number(f, self.spec.columns),
                depth, self.inside(out, j), stride, carry,
            )  # fmt: skip

    # -- causal masks ----------------------------------------------------------------------------

    def stop(self, last_row: Index) -> Index:
        """The number of keys that the rows before `last_row` see at most."""
        seen = minimum(self.sizes["keys"], last_row)
        return self.causal.where(seen, self.sizes["keys"])

    @property
    def causal(self) -> SimdExpr:
        return self.sizes["causal"].equals(1)

    def first_panel(self, first: Index, key: Index) -> Index:
        """The first panel of a block of rows from `first` on of which a row sees a key."""
        ahead = (key > first).where(key - first, 0)
        whole = SimdExpr(self.f, self.f.udiv(ahead.value, number(self.f, self.spec.rows).value))
        return self.causal.where(whole * self.spec.rows, 0)

    def walk(
        self, matrix: tuple[Index, ...], first: Index, count: Index, key: Index, keys: Index
    ) -> list[Any]:  # fmt: skip
        """The first arguments of a walk over the scores of rows from `first` on and keys from `key` on."""
        f, none = self.f, number(self.f, 0)
        if self.masked:
            mask, stride = self.at("mask", *matrix, first), self.strides["mask"][3]
            mask = self.inside(mask, key)
        else:
            mask, stride = Value(ir.PointerType(), "null"), none
        causal = self.causal
        limit = causal.where(first + 1 - key, keys)
        return [count, limit, causal.where(number(f, 1), none), keys, stride, self.scale, mask]


class AttentionRows:
    """Walks over the scores of some rows of one tile: a function of its own."""

    def __init__(
        self, frame: AttentionFrame, name: str, parameters: Sequence[tuple[str, ir.Type]]
    ) -> None:
        self.frame, self.spec, self.element = frame, frame.spec, frame.element
        self.vector = ir.VectorType(self.element, LANES)
        common = [(key, I64) for key in ("count", "limit", "step", "keys", "mask_stride")]
        common += [("scale", self.element), ("mask", ir.PointerType())]
        self.f = LocalFunction(frame.module, f"{frame.name}.{name}", [*common, *parameters])

    def load(self, place: Value) -> SimdExpr:
        return SimdExpr(self.f, self.f.load(place, typ=self.vector, align=self.spec.size))

    def store(self, value: SimdExpr, place: Value) -> None:
        self.f.store(value.value, place, align=self.spec.size)

    def every(self, base: Value, index: Index | int) -> SimdExpr:
        """One element in every lane."""
        one = self.f.load(address(self.f, base, index, self.element), typ=self.element)
        return SimdExpr(self.f, self.f.broadcast(one, LANES))

    def given(self, name: str, row: Index, stride: int, column: Index | int = 0) -> Value:
        """An address in the row of an argument."""
        return address(self.f, self.f.arguments[name], row * stride + column, self.element)

    def limit(self, row: Index) -> Index:
        """The number of keys of the tile that a row sees."""
        return minimum(self.f.index("keys"), self.f.index("limit") + row * self.f.index("step"))

    def scores(self, row: Index, place: Value) -> list[SimdExpr]:
        """A row's scores: scaled, the mask added, -inf where a key is not seen."""
        f = self.f
        scale = SimdExpr(f, f.broadcast(f.arguments["scale"], LANES))
        limit = self.limit(row)
        found = []
        for start in range(0, ATTENTION_KEYS, LANES):
            seen = lane_mask(f, LANES, limit - start)
            score = self.load(address(f, place, start, self.element)) * scale
            if self.frame.masked:
                offset = row * f.index("mask_stride") + start
                shift = address(f, f.arguments["mask"], offset, self.element)
                score = score + SimdExpr(
                    f, masked_load(f, self.vector, shift, seen, self.spec.size)
                )
            found.append(SimdExpr(f, seen).where(score, score.like(-FAR)))
        return found

    def folded(
        self, value: SimdExpr, combine: Callable[[SimdExpr, SimdExpr], SimdExpr]
    ) -> SimdExpr:
        """All lanes combined by halves, in every lane."""
        f, half = self.f, LANES // 2
        while half:
            moved = f.shuffle(value.value, value.value, [i ^ half for i in range(LANES)])
            value = combine(value, SimdExpr(f, moved))
            half //= 2
        return value


def larger(a: SimdExpr, b: SimdExpr) -> SimdExpr:
    return (a > b).where(a, b)
