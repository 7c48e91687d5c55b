"""The specialisation of a GEMM kernel: element types, register tile, cache blocks.

None of it changes a result: every element of C is the same chain of fused multiply-adds whatever the tile (see the
package).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from llvmlite import ir

from weft.engine.devices.cpu.llvm.target import AVX2, AVX512, Target
from weft.engine.kernels.reduction_order import PRODUCT_CHUNK

DEPTH = 256  # elements of K in one packed block; divides PRODUCT_CHUNK
STREAMED_DEPTH = 64  # elements of K in a block where B is streamed in wide blocks
MOST_STREAMED_ROWS = 4  # rows up to which a B with contiguous columns is read in long pieces
PACKED_BYTES = 1 << 18  # of a packed block of B
NEAR_BYTES = 1 << 20  # of B in the second cache
INTEGERS = "loop"  # the variant that multiplies integers
UNIT_ROWS = 64  # of integers that a packed panel serves
I16 = ir.IntType(16)
FLOAT, DOUBLE = ir.FloatType(), ir.DoubleType()


@dataclass(frozen=True)
class NumberForm:
    """The form of a dtype in memory and in computation; `planes` is 2 for complex."""

    memory: Any
    compute: Any
    planes: int = 1

    @property
    def native(self) -> bool:
        """Memory can be read by the micro-kernel as it is."""
        return self.planes == 1 and bool(self.memory == self.compute)


NUMBERS: dict[str, NumberForm] = {
    "float32": NumberForm(FLOAT, FLOAT),
    "float64": NumberForm(DOUBLE, DOUBLE),
    "complex64": NumberForm(FLOAT, FLOAT, 2),
    "complex128": NumberForm(DOUBLE, DOUBLE, 2),
    "float16": NumberForm(ir.HalfType(), FLOAT),
    "bfloat16": NumberForm(I16, FLOAT),
}
# (rows, vectors of columns) that fill the registers: real, complex.
TILES = {AVX512.name: ((14, 2), (12, 1)), AVX2.name: ((6, 2), (6, 1))}
OTHER_TILES = ((6, 4), (6, 1))


def full_tile(dtype: str, target: Target) -> tuple[int, int]:
    return TILES.get(target.name, OTHER_TILES)[NUMBERS[dtype].planes - 1]


@dataclass(frozen=True)
class Spec:
    """One kernel's constants; lengths are elements of the compute type unless they say bytes."""

    number: NumberForm
    rows: int  # of the register tile
    vectors: int  # of columns in the register tile
    exact: bool  # M is a multiple of `rows`: no smaller tiles
    transposed: bool  # B is read along k and turned in registers
    swapped: bool  # computes the transpose: A and B, M and N change places
    biased: bool  # adds a vector along N in the end
    target: Target
    size: int = field(init=False)
    lanes: int = field(init=False)

    def __post_init__(self) -> None:
        size = 8 if self.number.compute == DOUBLE else 4
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "lanes", self.target.register_bits // 8 // size)

    @property
    def shifts(self) -> bool:
        """True if the tiles add the bias to the sums that they store last: it goes along their columns."""
        return self.biased and not self.swapped and not self.transposed

    @property
    def streams(self) -> bool:
        """True if B is read a few k at a time (see `tile_streaming`): a B with contiguous columns and few rows of
        A."""
        return (
            self.exact
            and not self.transposed
            and self.number.native
            and self.rows <= MOST_STREAMED_ROWS
        )

    @property
    def vector(self) -> Any:
        return ir.VectorType(self.number.compute, self.lanes)

    @property
    def columns(self) -> int:
        """Columns of the register tile."""
        return self.lanes * self.vectors

    @property
    def depth(self) -> int:
        """Elements of K in one block. What is not packed is walked as far as a chain goes."""
        if self.transposed:
            return PRODUCT_CHUNK
        return STREAMED_DEPTH if self.streams else DEPTH

    @property
    def width(self) -> int:
        """Columns of C in one unit: as many as a packed block of B holds."""
        return self.packed_columns(STREAMED_DEPTH if self.streams else DEPTH)

    def packed_columns(self, depth: int) -> int:
        most = PACKED_BYTES // (depth * self.size * self.number.planes)
        return most // self.columns * self.columns

    @property
    def narrow(self) -> int:
        """Columns of C in one unit of a product that is cut along its columns."""
        return self.columns

    @property
    def flat_rows(self) -> int:
        """A product of up to as many rows, and no more than columns, is cut along its columns alone."""
        return 2 * self.width

    @property
    def unit_rows(self) -> int:
        """Rows of C in one unit of a product that is cut along its rows."""
        return self.rows

    @property
    def group_rows(self) -> int:
        """Rows of A that are packed together: with a tile of 14, whole vectors and whole lines of memory where they are
        turned."""
        return self.rows * max(1, 112 // self.rows)

    @property
    def chain_rows(self) -> int:
        """Rows of C whose chains a buffer holds while K is walked, with `width` columns; more with fewer."""
        return self.rows if self.streams else self.rows * max(1, 140 // self.rows)

    @property
    def a_stride(self) -> int:
        """Between rows of a packed panel of A; not a power of two, which would crowd cache sets."""
        return self.depth + 16

    @property
    def a_step(self) -> int:
        """Between values of k in a packed panel of A."""
        return 1

    @property
    def near(self) -> int:
        """The number of elements of B up to which, for few rows, reading it in place is quicker than packing it."""
        return NEAR_BYTES // self.size

    @property
    def a_rows(self) -> int:
        """So many rows of A are packed together where there are no more."""
        return self.group_rows if self.number.native and not self.exact else self.rows

    @property
    def a_plane(self) -> int:
        """Elements of one plane of packed rows of A; whole vectors of rows are written."""
        return -(-self.a_rows // self.lanes) * self.lanes * self.a_stride

    @property
    def b_stride(self) -> int:
        """Between values of k in a packed panel of B."""
        return self.columns * self.number.planes

    @property
    def heights(self) -> tuple[int, ...]:
        """Rows of the register tiles, highest first. A tile takes fewer rows as well, down to one more than the next
        has: what it computes beyond them is written nowhere."""
        return self.rows, *(() if self.exact else (r for r in (12, 8, 4) if r < self.rows))

    def units_of_axes(self, batch: int, m: int, n: int) -> tuple[int, int, int]:
        """The number of units of a product whose axes have several dimensions in memory, and their rows and columns:
        the columns of a single matrix are divided finer."""
        columns = self.narrow if batch == 1 else self.packed_columns(DEPTH)
        count = batch * -(-m // self.unit_rows) * -(-n // columns)
        return count, min(m, self.unit_rows), min(n, columns)


@cache
def parse(dtype: str, variant: str, target: Target) -> Spec:
    """The record behind a variant's name, such as tile14x2, exact3x4_bias, turned2x1, exact1x8_swapped."""
    match = re.fullmatch(r"(tile|exact|turned)(\d+)x(\d+)(_swapped)?(_bias)?", variant)
    if match is None:
        raise ValueError(f"no GEMM variant is called {variant!r}")
    kind, rows, vectors, swapped, biased = match.groups()
    number = NUMBERS[dtype]
    flags = kind != "tile", kind == "turned", bool(swapped), bool(biased)
    return Spec(number, int(rows), int(vectors), *flags, target)
