# cython: language_level=3
"""Which variant of the kernel a shape takes, and into how many units it is cut.

What depends on a variant alone is worked out once; what depends on sizes is a few divisions, for sizes may be new at
every call. What writes kernels, and knows LLVM's types, is imported when a variant is met for the first time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import cython
from cython.cimports.weft.engine.devices.cpu.gemm.choose import GemmChoice

from weft._build.compiled import require
from weft.engine.devices.cpu.llvm.target import AVX2, Target, host

require(__name__, cython.compiled)

PIECE_FLOPS = 1e6  # with less work than this a second thread does not pay
READING = 4  # rows whose products take as long as reading the other operand from afar
WIDE = 128  # columns from which one row is worth a kernel of its own
FEW = 7  # as many rows have one, where columns fill its registers
TURNED = 8  # as many rows read the other operand where it lies also when it lies along k
REGISTERS = {AVX2.name: 16}  # of vectors; 32 elsewhere
_reading = cython.declare(cython.longlong, READING)
_wide = cython.declare(cython.longlong, WIDE)
_few = cython.declare(cython.longlong, FEW)
_turned = cython.declare(cython.longlong, TURNED)
TILE, EXACT, EXACT_ROW, TURNED_ROWS = range(4)  # kinds of variants
_tiles = cython.declare(dict, {})  # by target and dtype


class GemmLaunch(NamedTuple):
    """How to run one product: the kernel's variant, its range, and the least piece of it.

    Threads take pieces of [0, units) cut at multiples of `grain_size`.  Kernels hold what they pack on
    the stack, about a MiB at most; none asks for scratch memory.
    """

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
        self.reading = READING


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
        self.broad = [0, 0, *(_broad(few, self.vectors, target) for few in range(2, FEW + 1))]

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
        """Vectors lie along the columns of C, or along its rows where columns are few."""
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
    """How many units a product has, how many are worth a piece, and the rows and columns of one."""
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
    """How many units a product of this variant has, and their rows and columns."""
    choice: GemmChoice = choose(Variant(dtype, variant, target), batch, m, n, 1)
    return choice.units, choice.rows, choice.columns


def grain_size(flops: float) -> int:
    """How many units of so many operations are worth a piece."""
    return max(1, round(PIECE_FLOPS / max(flops, 1.0)))


def _broad(rows: int, vectors: int, target: Target) -> int:
    """Vectors of columns beside each other that leave room for one of B each and one of A: a power of two, so that
    panels fill most widths. Few rows that are walked in narrow panels wait for memory at every k."""
    room = (REGISTERS.get(target.name, 32) - 1) // (rows + 1)
    return 1 << (min(room, 4 * vectors).bit_length() - 1)


@lru_cache(maxsize=4096)
def launch_axes(
    dtype: str, batch: int, m: int, n: int, k: int, target: Target | None = None
) -> GemmLaunch:
    """The launch of a product whose axes lie in several dimensions (`lower_axes`): vectors lie along n."""
    from weft.engine.devices.cpu.gemm.spec import full_tile, parse

    chosen = target or host()
    rows, vectors = full_tile(dtype, chosen)
    columns = parse(dtype, f"tile{rows}x{vectors}", chosen).columns
    variant = f"tile{rows}x{vectors}"
    if m < min(rows, FEW + 1):
        broad = 4 * vectors if m <= 1 else _broad(m, vectors, chosen)
        if broad > 1 and n >= broad * columns // vectors:
            variant = f"exact{max(m, 1)}x{broad}"
    units, rows, columns = parse(dtype, variant, chosen).units_of_axes(batch, m, n)
    return GemmLaunch(variant, units, grain_size(2.0 * rows * columns * max(k, 1)))
