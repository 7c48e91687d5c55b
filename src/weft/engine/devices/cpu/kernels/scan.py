"""Cumulative sums and products (maxima, minima) along rows: a blocked scan with one definition.

Pointers: the operand, the output, the totals. Arguments: rows, length, then (row, element) strides of both, then
whether rows continue from their total of an earlier launch, and the bytes between totals, 0 if none are kept (a long
row is scanned by several launches, so that signals can be answered between them). A row is cut into sixteens. Within
one, element i takes element i - 1, then both take those two before, then four, then eight; the total of all earlier
sixteens is added last. That total is the earlier one plus the last element of the sixteen, so it costs one step for
sixteen elements. Sums and products of float32 run in float64, float16 and bfloat16 in float32, and each result is
rounded once.

Short rows, and those whose elements do not lie side by side, are scanned sixteen rows at a time, one in each lane, to
the same bits. The arguments of that kernel: units, length, rows of a plane, units of a plane, then (plane, element,
row) strides of both.
"""

from __future__ import annotations

from llvmlite import ir

from weft.engine.devices.cpu.codegen.vector_memory import decode, encode
from weft.engine.devices.cpu.kernels.kernel_base import Family, each
from weft.engine.devices.cpu.llvm.builder import I1, I32, Value, choose, counted, integer, minimum
from weft.engine.devices.cpu.llvm.simd_value import COMPLEX, HALVES, SimdValue
from weft.engine.devices.cpu.llvm.target import Target
from weft.engine.kernels.loop_ir import SIZES
from weft.engine.kernels.reduction_order import LANES

ELEMENTS_PER_GRAIN = 4096
SEGMENT = 1 << 22  # elements of a row in one launch
TOTAL = 16  # bytes of a row's total
WIDER = {"float32": "float64", "complex64": "complex128"}
METHODS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}


def lower_scan(kind: str, dtype: str, name: str, target: Target | None = None) -> str:
    """The LLVM module of the scan of one kind ("sum", "prod", "max", "min") and dtype."""
    family = Family(name, dtype, target, LANES)
    scan = _Scan(family, kind)
    each(family.builder, family.begin, family.end, scan.row)
    return family.finish()


def lower_scan_of_columns(kind: str, dtype: str, name: str, target: Target | None = None) -> str:
    """The LLVM module of the same scan, of sixteen rows at a time."""
    family = Family(name, dtype, target, LANES)
    scan = _ScanOfColumns(family, kind)
    each(family.builder, family.begin, family.end, scan.sixteen_rows)
    return family.finish()


def suits_columns(rows: int, length: int, step: int) -> bool:
    """True if rows, `rows` of them side by side in a plane, are scanned one in each lane."""
    narrow = length < LANES and rows >= LANES
    return length <= SEGMENT and (narrow or (step > 1 and 2 * rows >= LANES))


def launch_scan_of_columns(planes: int, rows: int, length: int) -> tuple[int, int]:
    """Units (sixteen rows each), and the grain at which they may be split."""
    units = planes * -(-rows // LANES)
    return units, max(1, ELEMENTS_PER_GRAIN // max(1, LANES * length))


def work_type(kind: str, dtype: str) -> str:
    """The dtype that a scan is computed in: sums and products in the next wider one, as PyTorch computes them, so that
    partial results do not overflow if later elements bring them back."""
    if dtype in HALVES:
        return "float32"
    return WIDER.get(dtype, dtype) if kind in ("sum", "prod") else dtype


def launch_scan(rows: int, length: int) -> tuple[int, int, int]:
    """Units (rows), the grain at which they may be split, bytes of scratch."""
    return rows, max(1, ELEMENTS_PER_GRAIN // max(1, length)), 0


class _Steps:
    """The steps of a scan, which combine two values of the dtype that it is computed in."""

    def __init__(self, family: Family, kind: str) -> None:
        self.family = family
        self.builder = family.builder
        self.e = family.e
        self.method = METHODS[kind]
        self.dtype = work_type(kind, family.dtype)

    def combine(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """One step."""
        result: SimdValue = getattr(self.e, self.method)(a, b)
        return result


class _Scan(_Steps):
    """The lowering of one scan."""

    def __init__(self, family: Family, kind: str) -> None:
        super().__init__(family, kind)
        self.source, self.out, self.totals = family.pointers(3)
        _, self.length, *strides = family.arguments(8)
        self.source_row, self.source_step, self.out_row, self.out_step = strides[:4]
        self.continued = self.builder.icmp_signed("!=", strides[4], integer(0))
        self.total_bytes = strides[5]

    def row(self, number: Value) -> None:
        """One row: the first sixteen, then the others with the total before them."""
        b = self.builder
        source = self.family.at(self.source, (number, self.source_row))
        out = self.family.at(self.out, (number, self.out_row))
        place = b.gep(self.totals, [b.mul(number, self.total_bytes)])

        def sixteen(index: Value, carry: list[Value]) -> list[Value]:
            local = self._local(self._read(source, index))
            joined = self.combine(SimdValue(self.dtype, *carry), local).parts
            first = b.icmp_signed("==", index, integer(0))
            alone = b.broadcast(b.select(self.continued, Value(I1, "false"), first), LANES)
            pairs = zip(local.parts, joined, strict=True)
            result = [b.select(alone, x, y) for x, y in pairs]
            self._write(SimdValue(self.dtype, *result), out, index)
            return [b.shuffle(part, part, [LANES - 1] * LANES) for part in result]

        start = self._start(place)
        totals = counted(b, integer(0), self.length, LANES, start, sixteen)
        self._keep(totals, place)

    def _parts(self, place: Value) -> list[Value]:
        """The addresses of the one or two numbers of a total."""
        count = 2 if self.dtype in COMPLEX else 1
        return [self.builder.gep(place, [integer(TOTAL // 2 * part)]) for part in range(count)]

    def _start(self, place: Value) -> list[Value]:
        b = self.builder
        zero = list(self.e.constant(0, self.dtype).parts)

        def read() -> list[Value]:
            pairs = zip(self._parts(place), zero, strict=True)
            return [b.broadcast(b.load(p, typ=z.type.element), LANES) for p, z in pairs]

        return choose(b, self.continued, read, lambda: zero)

    def _keep(self, totals: list[Value], place: Value) -> None:
        b = self.builder

        def write() -> list[Value]:
            for part, value in zip(self._parts(place), totals, strict=True):
                b.store(b.extract_element(value, Value(I32, "0")), part)
            return []

        choose(b, b.icmp_signed("!=", self.total_bytes, integer(0)), write, list)

    def _local(self, v: SimdValue) -> SimdValue:
        """The scan of sixteen elements by doubling distances."""
        b, distance = self.builder, 1
        while distance < LANES:
            lanes = [max(0, i - distance) for i in range(LANES)]
            moved = SimdValue(v.dtype, *(b.shuffle(part, part, lanes) for part in v.parts))
            bits = ", ".join(f"i1 {'true' if i >= distance else 'false'}" for i in range(LANES))
            inside = SimdValue("bool", Value(self.e.vector(I1), f"<{bits}>"))
            v = self.e.select(inside, self.combine(moved, v), v)
            distance *= 2
        return v

    def _partial(self, index: Value, step: Value) -> tuple[Value, Value, Value]:
        """The number of elements left for this block of sixteen, whether it is whole and contiguous, and whether it is
        contiguous."""
        b = self.builder
        rest = b.sub(self.length, index)
        whole = b.icmp_signed(">=", rest, integer(LANES))
        unit = b.icmp_signed("==", step, integer(1))
        return minimum(b, rest, integer(LANES)), b.and_(whole, unit), unit

    def _read(self, source: Value, index: Value) -> SimdValue:
        family, memory = self.family, self.family.memory
        count, whole, unit = self._partial(index, self.source_step)
        pointer = family.at(source, (index, self.source_step))

        def strided() -> list[Value]:
            stride = self.builder.mul(self.source_step, integer(family.size))
            return [memory.collect(pointer, stride, count, family.dtype)]

        def contiguous() -> list[Value]:
            return [memory.load_partial(pointer, family.dtype, None, count)]

        def partial() -> list[Value]:
            return choose(self.builder, unit, contiguous, strided)

        raw = choose(self.builder, whole, lambda: [memory.load(pointer, family.dtype)], partial)
        return self.e.cast(decode(self.e, raw[0], family.dtype), self.dtype)

    def _write(self, v: SimdValue, out: Value, index: Value) -> None:
        family, memory = self.family, self.family.memory
        raw = encode(self.e, self.e.cast(v, family.dtype))
        count, whole, unit = self._partial(index, self.out_step)
        pointer = family.at(out, (index, self.out_step))

        def full() -> list[Value]:
            memory.store(raw, pointer)
            return []

        def strided() -> list[Value]:
            stride = self.builder.mul(self.out_step, integer(family.size))
            memory.scatter(raw, pointer, stride, None, count, family.dtype)
            return []

        def contiguous() -> list[Value]:
            memory.store_partial(raw, pointer, None, count, family.dtype)
            return []

        def partial() -> list[Value]:
            return choose(self.builder, unit, contiguous, strided)

        choose(self.builder, whole, full, partial)


class _ScanOfColumns(_Steps):
    """The lowering of one scan, a row in each lane."""

    def __init__(self, family: Family, kind: str) -> None:
        super().__init__(family, kind)
        self.zero = self.e.constant(0, self.dtype).parts
        self.source, self.out = family.pointers(2)
        _, self.length, self.rows, self.units, *strides = family.arguments(10)
        self.source_strides, self.out_strides = strides[:3], strides[3:]
        self.lines = self.builder.alloca(ir.ArrayType(self.zero[0].type, LANES * len(self.zero)))

    def sixteen_rows(self, unit: Value) -> None:
        """One unit: the first sixteen elements of its rows, then the others with the totals before them."""
        b = self.builder
        plane = b.sdiv(unit, self.units)
        first = b.mul(b.sub(unit, b.mul(plane, self.units)), integer(LANES))
        self.count = minimum(b, b.sub(self.rows, first), integer(LANES))
        source, out = (
            self.family.at(pointer, (plane, strides[0]), (first, strides[2]))
            for pointer, strides in (
                (self.source, self.source_strides),
                (self.out, self.out_strides),
            )
        )

        def sixteen(index: Value, carry: list[Value]) -> list[Value]:
            rest = minimum(b, b.sub(self.length, index), integer(LANES))
            each(b, integer(0), rest, lambda i: self._read(source, b.add(index, i), i))
            local = self._local()

            def first() -> list[Value]:
                return [part for line in local for part in line.parts]

            def later() -> list[Value]:
                total = SimdValue(self.dtype, *carry)
                joined = [self.combine(total, line) for line in local]
                return [part for line in joined for part in line.parts]

            parts = choose(b, b.icmp_signed("==", index, integer(0)), first, later)
            for number, part in enumerate(parts):
                b.store(part, self._part(integer(number)))
            each(b, integer(0), rest, lambda i: self._write(out, b.add(index, i), i))
            return parts[-len(self.zero) :]

        counted(b, integer(0), self.length, LANES, list(self.zero), sixteen)

    def _part(self, number: Value) -> Value:
        """The address of one of the vectors that sixteen elements of sixteen rows are kept in."""
        size = LANES * SIZES[self.dtype] // len(self.zero)
        return self.builder.gep(self.lines, [self.builder.mul(number, integer(size))])

    def _line(self, index: Value) -> SimdValue:
        b, count = self.builder, len(self.zero)
        first = b.mul(index, integer(count))
        places = [self._part(b.add(first, integer(part))) for part in range(count)]
        pairs = zip(places, self.zero, strict=True)
        return SimdValue(self.dtype, *[b.load(place, typ=zero.type) for place, zero in pairs])

    def _local(self) -> list[SimdValue]:
        """The scan of sixteen elements by doubling distances."""
        lines = [self._line(integer(i)) for i in range(LANES)]
        distance = 1
        while distance < LANES:
            pairs = zip(lines[:-distance], lines[distance:], strict=True)
            lines = lines[:distance] + [self.combine(a, b) for a, b in pairs]
            distance *= 2
        return lines

    def _read(self, source: Value, index: Value, line: Value) -> None:
        """An element of each row into its line."""
        b, family, memory = self.builder, self.family, self.family.memory
        _, step, along = self.source_strides
        pointer = family.at(source, (index, step))
        stride = b.mul(along, integer(family.size))

        def beside() -> list[Value]:
            return [memory.load_partial(pointer, family.dtype, None, self.count)]

        def apart() -> list[Value]:
            return [memory.load_apart(pointer, stride, None, self.count, family.dtype)]

        (raw,) = choose(b, b.icmp_signed("==", along, integer(1)), beside, apart)
        value = self.e.cast(decode(self.e, raw, family.dtype), self.dtype)
        first = b.mul(line, integer(len(self.zero)))
        for number, part in enumerate(value.parts):
            b.store(part, self._part(b.add(first, integer(number))))

    def _write(self, out: Value, index: Value, line: Value) -> None:
        """A line to an element of each row."""
        b, family, memory = self.builder, self.family, self.family.memory
        _, step, along = self.out_strides
        raw = encode(self.e, self.e.cast(self._line(line), family.dtype))
        pointer = family.at(out, (index, step))

        def beside() -> list[Value]:
            memory.store_partial(raw, pointer, None, self.count, family.dtype)
            return []

        def apart() -> list[Value]:
            stride = b.mul(along, integer(family.size))
            memory.store_apart(raw, pointer, stride, None, self.count, family.dtype)
            return []

        choose(b, b.icmp_signed("==", along, integer(1)), beside, apart)
