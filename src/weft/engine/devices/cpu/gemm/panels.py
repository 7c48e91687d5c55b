"""Packing: rectangles of A or B, of any strides, into contiguous panels of the compute type.

`target[i * target_stride + j] = source[i * i_stride + j * j_stride]`, widened; the imaginary parts of complex numbers
go `plane` elements further. Unit strides along j are copied by vectors, unit strides along i transposed in registers;
other strides are copied element by element. Up to a vector of elements beyond the rectangle may be written, in panels
large enough for it, and is never read as a result.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from weft.engine.devices.cpu.gemm.code import (
    Index,
    LocalFunction,
    address,
    alternatives,
    lane_mask,
    loop,
    masked_load,
    minimum,
)
from weft.engine.devices.cpu.gemm.spec import DOUBLE, FLOAT, NumberForm, Spec
from weft.engine.devices.cpu.llvm.builder import (
    FIRST_CACHE,
    I32,
    I64,
    POINTER,
    SECOND_CACHE,
    Value,
    ask_for,
)

PREFETCH_COLUMNS = 32  # columns of A that are prefetched at once
LINES_AHEAD = 16  # steps of k by which the copy of B is prefetched

PARAMETERS = (
    ("source", POINTER),
    ("i_stride", I64),
    ("j_stride", I64),
    ("i_count", I64),
    ("j_count", I64),
    ("target", POINTER),
    ("target_stride", I64),
    ("plane", I64),
)


def widen(f: LocalFunction, number: NumberForm, raw: Value) -> Value:
    """Memory's form as the compute type."""
    if number.memory == number.compute:
        return raw
    lanes = getattr(raw.type, "count", 0)
    wide = ir.VectorType(FLOAT, lanes) if lanes else FLOAT
    if isinstance(number.memory, ir.HalfType):
        return f.fpext(raw, wide)
    whole = ir.VectorType(I32, lanes) if lanes else I32
    shift = Value(whole, "splat (i32 16)" if lanes else "16")
    return f.bitcast(f.shl(f.zext(raw, whole), shift), wide)


class PanelGather:
    """Writes the packing function."""

    def __init__(self, module: ir.Module, name: str, spec: Spec) -> None:
        self.spec, self.number = spec, spec.number
        self.f = LocalFunction(module, name, PARAMETERS)
        self.get = self.f.index

    def source(self, i: Index | int, j: Index | int) -> Value:
        """The address of element (i, j), of its real part for complex numbers."""
        f = self.f
        offset = self.get("i_stride") * i + self.get("j_stride") * j
        planes = self.number.planes
        return address(f, f.arguments["source"], offset * planes, self.number.memory)

    def target(self, i: Index, j: Index) -> Value:
        offset = self.get("target_stride") * i + j
        return address(self.f, self.f.arguments["target"], offset, self.number.compute)

    def plane(self, place: Value) -> Value:
        return address(self.f, place, self.get("plane"), self.number.compute)

    def build(self) -> LocalFunction:
        f = self.f
        with alternatives(f, self.get("j_stride").equals(1)) as bodies:
            next(bodies)
            self.straight()
            next(bodies)
            self.across()
            next(bodies, None)
        f.ret_void()
        return f

    def straight(self) -> None:
        lanes = self.spec.lanes
        with loop(self.f, self.get("i_count")) as i:
            whole = self.get("j_count") & -lanes
            with loop(self.f, whole, lanes) as j:
                self.copy_vector(i, j)
            with loop(self.f, self.get("j_count"), start=whole) as j:
                self.copy_one(i, j)

    def across(self) -> None:
        if not self.number.native:
            self.one_by_one()
            return
        with alternatives(self.f, self.get("i_stride").equals(1)) as bodies:
            next(bodies)
            self.transposed()
            next(bodies)
            self.one_by_one()
            next(bodies, None)

    def one_by_one(self) -> None:
        with loop(self.f, self.get("i_count")) as i, loop(self.f, self.get("j_count")) as j:
            self.copy_one(i, j)

    def copy_one(self, i: Index, j: Index) -> None:
        f, memory = self.f, self.number.memory
        source, target = self.source(i, j), self.target(i, j)
        f.store(widen(f, self.number, f.load(source, typ=memory)), target)
        if self.number.planes == 2:
            f.store(f.load(address(f, source, 1, memory), typ=memory), self.plane(target))

    def copy_vector(self, i: Index, j: Index) -> None:
        f, lanes, planes = self.f, self.spec.lanes, self.number.planes
        size = 8 if self.number.memory == DOUBLE else 4 if self.number.memory == FLOAT else 2
        raw_type = ir.VectorType(self.number.memory, lanes * planes)
        raw = f.load(self.source(i, j), typ=raw_type, align=size)
        target = self.target(i, j)
        if planes == 1:
            f.store(widen(f, self.number, raw), target, align=self.spec.size)
            return
        for part, place in enumerate((target, self.plane(target))):
            lane = f.shuffle(raw, raw, range(part, 2 * lanes, 2))
            f.store(lane, place, align=self.spec.size)

    def transposed(self) -> None:
        """Squares of lanes x lanes; lanes beyond the rectangle repeat its last line."""
        f, spec, lanes = self.f, self.spec, self.spec.lanes
        with loop(f, self.get("j_count"), lanes) as j:
            last = self.get("j_count") - 1
            starts = [self.source(0, minimum(j + n, last)) for n in range(lanes)]
            with loop(f, self.get("i_count"), lanes) as i:
                mask = lane_mask(f, lanes, self.get("i_count") - i)
                places = [address(f, start, i, spec.number.memory) for start in starts]
                lines = [masked_load(f, spec.vector, place, mask, spec.size) for place in places]
                for n, vector in enumerate(transpose(f, lines, spec.size)):
                    f.store(vector, self.target(i + n, j), align=spec.size)


class Sheet:
    """Writes the function that packs neighbouring panels of B at once, if columns are contiguous: each k is read in
    one long piece of memory. `target_stride` is from k to k, `plane` from panel to panel."""

    def __init__(self, module: ir.Module, name: str, spec: Spec) -> None:
        self.spec = spec
        self.f = LocalFunction(module, name, (*PARAMETERS[:2], *PARAMETERS[3:]))

    def build(self) -> LocalFunction:
        """`j_count` is the number of panels."""
        f, spec = self.f, self.spec
        stride, wide = f.index("i_stride"), f.index("target_stride")
        with loop(f, f.index("i_count")) as i:
            source = address(f, f.arguments["source"], stride * i, spec.number.compute)
            target = address(f, f.arguments["target"], wide * i, spec.number.compute)
            with loop(f, f.index("j_count")) as panel:
                start = address(f, source, panel * spec.columns, spec.number.compute)
                place = address(f, target, f.index("plane") * panel, spec.number.compute)
                for lane in range(0, spec.columns, spec.lanes):
                    later = address(f, start, stride * LINES_AHEAD + lane, spec.number.compute)
                    ask_for(f, later, FIRST_CACHE)
                    piece = address(f, start, lane, spec.number.compute)
                    vector = f.load(piece, typ=spec.vector, align=spec.size)
                    to = address(f, place, lane, spec.number.compute)
                    f.store(vector, to, align=spec.size)
        f.ret_void()
        return f


class PanelPrefetch:
    """Writes the function that asks for a part of the next panel of A, so that it is near when it is packed."""

    def __init__(self, module: ir.Module, name: str, spec: Spec) -> None:
        self.spec = spec
        parameters = (("source", POINTER), ("i_stride", I64), ("j_stride", I64), ("j", I64))
        self.f = LocalFunction(module, name, parameters)

    def build(self) -> LocalFunction:
        """Prefetch the panel's rows i, or contiguous columns j: `PREFETCH_COLUMNS` columns from `j`."""
        f, rows = self.f, self.spec.rows
        line = 64 // self.spec.size
        with alternatives(f, f.index("j_stride").equals(1)) as bodies:
            next(bodies)
            for row in range(rows):
                for column in range(0, PREFETCH_COLUMNS, line):
                    self.touch(row, f.index("j") + column)
            next(bodies)
            for column in range(PREFETCH_COLUMNS):
                self.touch(rows - 1, f.index("j") + column)
            next(bodies, None)
        f.ret_void()
        return f

    def touch(self, i: int, j: Index) -> None:
        f = self.f
        offset = f.index("i_stride") * i + f.index("j_stride") * j
        ask_for(f, address(f, f.arguments["source"], offset, self.spec.number.memory), SECOND_CACHE)


def transpose(f: LocalFunction, rows: list[Value], size: int) -> list[Any]:
    """The square of `rows` mirrored: first inside 16-byte pieces, then piece by piece.

    Each step is a shuffle that x86 and AArch64 have as one instruction.
    """
    count, piece = len(rows), 16 // size
    pieces = count // piece
    quads = [in_pieces(f, rows[i : i + piece], pieces) for i in range(0, count, piece)]
    columns = [exchange(f, list(column), piece) for column in zip(*quads, strict=True)]
    return [columns[i % piece][i // piece] for i in range(count)]


def in_pieces(f: LocalFunction, rows: list[Value], pieces: int) -> list[Any]:
    """Vector c of the result holds element c of every row, for each piece of 16 bytes."""
    piece = len(rows)
    count = piece * pieces
    width = 1
    while width < piece:
        mixed = []
        for group in range(0, piece, 2 * width):
            for a, b in ((group + i, group + i + width) for i in range(width)):
                for half in (0, piece // 2):
                    lanes = [
                        start + half + first + side + i
                        for start in range(0, count, piece)
                        for first in range(0, piece // 2, width)
                        for side in (0, count)
                        for i in range(width)
                    ]
                    mixed.append(f.shuffle(rows[a], rows[b], lanes))
        rows = mixed
        width *= 2
    return rows


def exchange(f: LocalFunction, rows: list[Value], piece: int) -> list[Any]:
    """Pieces of `piece` lanes transposed, by exchanging halves, quarters and so on."""
    count = len(rows) * piece
    half = len(rows) // 2
    while half:
        step = half * piece
        low = [i if not i & step else count + (i ^ step) for i in range(count)]
        high = [i ^ step if not i & step else count + i for i in range(count)]
        for i in range(len(rows)):
            if not i & half:
                a, b = rows[i], rows[i + half]
                rows[i], rows[i + half] = f.shuffle(a, b, low), f.shuffle(a, b, high)
        half //= 2
    return rows
