# cython: language_level=3
"""The choice of GEMM variants: the variant of the kernel for a shape, and its number of units.

Facts of a variant are worked out once; what depends on sizes is a few divisions, because sizes may be new at every
call. Modules that write kernels, and know LLVM's types, are imported when a variant is met for the first time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import cython
from cython.cimports.weft.engine.devices.cpu.gemm.choose import GemmChoice

from weft._build.compiled import require
from weft.engine.devices.cpu.llvm.target import AVX2, Target, host

require(__name__, cython.compiled)

PIECE_FLOPS = (
    1e6  # floating-point operations of a piece: with less work a second thread does not pay
)
B_READ_ROWS = 4  # rows whose multiplications take as long as reading the other operand from memory
ONE_ROW_COLUMNS = 128  # columns from which one row is worth a kernel of its own
MAX_EXACT_ROWS = 7  # rows up to which there is a kernel of their own, if columns fill its registers
MAX_ROWS_UNPACKED_BT = 8  # rows up to which a k-contiguous B is read in place instead of packed
VECTOR_REGISTERS = {AVX2.name: 16}  # vector registers by target; 32 elsewhere
_wide = cython.declare(cython.longlong, ONE_ROW_COLUMNS)
_few = cython.declare(cython.longlong, MAX_EXACT_ROWS)
_turned = cython.declare(cython.longlong, MAX_ROWS_UNPACKED_BT)
TILE, EXACT, EXACT_ROW, TURNED_ROWS = range(4)  # kinds of variants
_tiles = cython.declare(dict, {})  # by target and dtype


class GemmLaunch(NamedTuple):
    """The launch of one product: the kernel's variant, its range, and the least piece of it.

    Threads take pieces of [0, units) divided at multiples of `grain_size`. Kernels pack into the stack, about a MiB at
    most; none asks for scratch memory."""

    variant: str
    units: int
    grain_size: int


@cython.final
@cython.cclass
class Variant:
    """A kernel's name and how it cuts its products: a unit with all of up to `flat_rows` rows has `narrow` columns,
    others have `unit_rows` and `width`; one of integers has all columns. `specs` has room for the kernels without and
    with a bias."""

    def __init__(self, dtype: str, name: str, target: Target) -> None:
        from weft.engine.devices.cpu.gemm.spec import INTEGERS, UNIT_ROWS, parse

        self.name = name
        self.specs = [None, None]
        if name == INTEGERS:
            self.unit_rows = UNIT_ROWS
            self.width = 1 << 62
            return
        spec = parse(dtype, name, target)
        self.swapped = spec.swapped
        self.narrow = spec.narrow
        self.flat_rows = spec.flat_rows
        self.unit_rows = spec.unit_rows
        self.width = spec.width
        self.reading = B_READ_ROWS


@cython.final
@cython.cclass
class Tile:
    """The register tile of a dtype: rows, vectors and columns; whether memory is read as it is, whether numbers are
    real; and the variants that have been met."""

    def __init__(self, dtype: str, target: Target) -> None:
        from weft.engine.devices.cpu.gemm.spec import INTEGERS, NUMBERS, full_tile, parse

        self.dtype = dtype
        self.target = target
        self.variants: dict[int, Variant] = {}
        if dtype not in NUMBERS:
            self.integers = Variant(dtype, INTEGERS, target)
            return
        self.rows, self.vectors = full_tile(dtype, target)
        number = NUMBERS[dtype]
        name = f"tile{self.rows}x{self.vectors}"
        self.columns = parse(dtype, name, target).columns
        self.native, self.real = number.native, number.planes == 1
        self.broad = [
            0,
            0,
            *(_broad(few, self.vectors, target) for few in range(2, MAX_EXACT_ROWS + 1)),
        ]

    @cython.cfunc
    def variant(self, kind: cython.int, few: cython.longlong, swapped: cython.bint) -> Variant:
        """A variant, which is made where it is met for the first time."""
        key: cython.longlong = kind | few << 3 | cython.cast(cython.longlong, swapped) << 40
        found = self.variants.get(key)
        if found is None:
            name = (
                f"tile{self.rows}x{self.vectors}",
                f"exact{few}x{self.broad[few if kind == EXACT else 0]}",
                f"exact1x{4 * self.vectors}",
                f"turned{few}x1" if few > 1 else "turned1x2",
            )[kind]
            found = Variant(self.dtype, name + ("_swapped" if swapped else ""), self.target)
            self.variants[key] = found
        return found

    @cython.cfunc
    def pick(
        self, m: cython.longlong, n: cython.longlong, a_along: cython.bint, b_along: cython.bint
    ) -> Variant:
        """The variant for a shape: vectors go along the columns of C, or along its rows if columns are few."""
        if self.integers is not None:
            return self.integers
        swapped: cython.bint = n < m and n <= self.columns
        few: cython.longlong = n if swapped else m
        many: cython.longlong = m if swapped else n
        along: cython.bint = a_along if swapped else b_along
        if few <= _turned and many >= self.columns and self.native and along:
            return self.variant(TURNED_ROWS, few, swapped)
        if few == 1 and many >= _wide:
            return self.variant(EXACT_ROW, 1, swapped)
        if 1 < few < min(self.rows, _few + 1) and self.real:
            broad: cython.longlong = self.broad[few]
            if broad > 1 and many >= broad * self.columns // self.vectors:
                return self.variant(EXACT, few, swapped)
        return self.variant(TILE, 0, swapped)


@cython.cfunc
def tile_of(dtype: str, target: Target | None = None) -> Tile:
    """The tile of a dtype, of this machine or of another target."""
    key = dtype if target is None else (dtype, target.name)
    found = _tiles.get(key)
    if found is None:
        found = _tiles[key] = Tile(dtype, host() if target is None else target)
    return found


@cython.cfunc
@cython.exceptval(check=False)
def choose(
    variant: Variant,
    batch: cython.longlong,
    m: cython.longlong,
    n: cython.longlong,
    k: cython.longlong,
) -> GemmChoice:
    """The number of units of a product, the units that are worth a piece, and the rows and columns of one."""
    choice: GemmChoice
    few: cython.longlong = n if variant.swapped else m
    many: cython.longlong = m if variant.swapped else n
    rows: cython.longlong = variant.unit_rows
    columns: cython.longlong = variant.width
    if batch == 1 and few <= min(many, variant.flat_rows):
        rows, columns = max(few, 1), variant.narrow
    wide: cython.longlong = 1 if variant.narrow == 0 else (many + columns - 1) // columns
    choice.units = batch * ((few + rows - 1) // rows) * wide
    choice.rows = min(few, rows)
    choice.columns = min(many, columns)
    flops: cython.double = 2.0 * (choice.rows + variant.reading) * choice.columns * max(k, 1)
    choice.grain_size = max(1, cython.cast(cython.longlong, PIECE_FLOPS / max(flops, 1.0) + 0.5))
    return choice


def launch_gemm(
    dtype: str,
    batch: int,
    m: int,
    n: int,
    k: int,
    target: Target | None = None,
    along: tuple[bool, bool] = (False, False),
) -> GemmLaunch:
    """The launch of C[batch, m, n] = A[batch, m, k] @ B[batch, k, n]; `along` says of A and of B whether neighbours in
    memory are neighbours along k."""
    variant: Variant = tile_of(dtype, target).pick(m, n, along[0], along[1])
    choice: GemmChoice = choose(variant, batch, m, n, k)
    return GemmLaunch(variant.name, choice.units, choice.grain_size)


def units_of(
    dtype: str, variant: str, target: Target, batch: int, m: int, n: int
) -> tuple[int, int, int]:
    """The number of units of a product of this variant, and their rows and columns."""
    choice: GemmChoice = choose(Variant(dtype, variant, target), batch, m, n, 1)
    return choice.units, choice.rows, choice.columns


def grain_size(flops: float) -> int:
    """The number of units of `flops` operations each that are worth a piece."""
    return max(1, round(PIECE_FLOPS / max(flops, 1.0)))


def _broad(rows: int, vectors: int, target: Target) -> int:
    """The most vectors of columns in one panel that leave registers for one of B each and one of A: a power of two, so
    that panels fill most widths. Few rows that are walked in narrow panels wait for memory at every k."""
    room = (VECTOR_REGISTERS.get(target.name, 32) - 1) // (rows + 1)
    return 1 << (min(room, 4 * vectors).bit_length() - 1)


@lru_cache(maxsize=4096)
def launch_axes(
    dtype: str, batch: int, m: int, n: int, k: int, target: Target | None = None
) -> GemmLaunch:
    """The launch of a product whose axes have several dimensions in memory (`lower_axes`): vectors go along n."""
    from weft.engine.devices.cpu.gemm.spec import full_tile, parse

    chosen = target or host()
    rows, vectors = full_tile(dtype, chosen)
    columns = parse(dtype, f"tile{rows}x{vectors}", chosen).columns
    variant = f"tile{rows}x{vectors}"
    if m < min(rows, MAX_EXACT_ROWS + 1):
        broad = 4 * vectors if m <= 1 else _broad(m, vectors, chosen)
        if broad > 1 and n >= broad * columns // vectors:
            variant = f"exact{max(m, 1)}x{broad}"
    units, rows, columns = parse(dtype, variant, chosen).units_of_axes(batch, m, n)
    return GemmLaunch(variant, units, grain_size(2.0 * rows * columns * max(k, 1)))
