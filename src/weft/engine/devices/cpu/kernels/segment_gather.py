"""Segment gathers: each output row is the sum, in order, of the rows that a table lists.

Pointers: the table of row addresses, the offsets into it (rows + 1 of them, int64), the output. Arguments: rows,
row_size in elements; rows are contiguous. A row listed once is copied, a row without sources is zeros. Batches and
cotangents are packed this way.
"""

from __future__ import annotations

from weft.engine.devices.cpu.kernels.kernel_base import Family, each
from weft.engine.devices.cpu.llvm.builder import I64, POINTER, Value, choose, counted, integer
from weft.engine.devices.cpu.llvm.simd_value import SimdValue
from weft.engine.devices.cpu.llvm.target import Target

ELEMENTS_PER_GRAIN = 4096


def lower_rows(dtype: str, name: str, target: Target | None = None) -> str:
    """The LLVM module of the kernel for one dtype."""
    family = Family(name, dtype, target)
    b = family.builder
    table, offsets, out = family.pointers(3)
    _, size = family.arguments(2)

    def entry(pointer: Value, index: Value, type_: object) -> Value:
        return b.load(b.gep(pointer, [b.mul(index, integer(8))]), typ=type_)

    def row(number: Value) -> None:
        first = entry(offsets, number, I64)
        last = entry(offsets, b.add(number, integer(1)), I64)
        target_row = family.at(out, (number, size))

        def some() -> list[Value]:
            _add(family, table, first, last, target_row, size)
            return []

        def none() -> list[Value]:
            zero = family.e.constant(0, dtype)
            family.pieces(
                integer(0),
                size,
                lambda index, count: family.store(
                    zero, family.at(target_row, (index, integer(1))), count
                ),
            )
            return []

        choose(b, b.icmp_signed("<", first, last), some, none)

    each(b, family.begin, family.end, row)
    return family.finish()


def _add(family: Family, table: Value, first: Value, last: Value, out: Value, size: Value) -> None:
    """One row with at least one source."""
    b, e = family.builder, family.e

    def source(number: Value) -> Value:
        return b.load(b.gep(table, [b.mul(number, integer(8))]), typ=POINTER)

    start, rest = source(first), b.add(first, integer(1))

    def piece(index: Value, count: Value | None) -> None:
        def add(number: Value, carry: list[Value]) -> list[Value]:
            value = family.load(family.at(source(number), (index, integer(1))), count)
            return list(e.add(SimdValue(family.dtype, *carry), value).parts)

        value = family.load(family.at(start, (index, integer(1))), count)
        total = counted(b, rest, last, 1, value.parts, add)
        family.store(SimdValue(family.dtype, *total), family.at(out, (index, integer(1))), count)

    family.pieces(integer(0), size, piece)


def launch_rows(rows: int, row_size: int) -> tuple[int, int, int]:
    """Units (rows), the grain at which they may be split, bytes of scratch."""
    return rows, max(1, ELEMENTS_PER_GRAIN // max(1, row_size)), 0
