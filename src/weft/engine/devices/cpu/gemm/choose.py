"""Which variant of the kernel a shape takes, and into how many units it is cut."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from weft.engine.devices.cpu.gemm.spec import INTEGERS, NUMBERS, UNIT_ROWS, full_tile, parse
from weft.engine.devices.cpu.llvm.target import AVX2, Target, host

PIECE_FLOPS = 1e6  # with less work than this a second thread does not pay
READING = 4  # rows whose products take as long as reading the other operand from afar
WIDE = 128  # columns from which one row is worth a kernel of its own
FEW = 7  # as many rows have one, where columns fill its registers
TURNED = 8  # as many rows read the other operand where it lies also when it lies along k
REGISTERS = {AVX2.name: 16}  # of vectors; 32 elsewhere


@dataclass(frozen=True)
class Launch:
    """How to run one product: the kernel's variant, its range, and the least piece of it.

    Threads take pieces of [0, units) cut at multiples of `grain`.  Kernels hold what they pack on
    the stack, about a MiB at most; none asks for scratch memory.
    """

    variant: str
    units: int
    grain: int


@lru_cache(maxsize=4096)
def launch_gemm(
    dtype: str,
    batch: int,
    m: int,
    n: int,
    k: int,
    target: Target | None = None,
    along: tuple[bool, bool] = (False, False),
) -> Launch:
    """The launch of C[batch, m, n] = A[batch, m, k] @ B[batch, k, n]; `along` says of A and of B whether neighbours in
    memory are neighbours along k."""
    if dtype not in NUMBERS:
        units = batch * -(-m // UNIT_ROWS)
        return Launch(INTEGERS, units, grain(2.0 * min(m, UNIT_ROWS) * n * max(k, 1)))
    chosen = target or host()
    variant = pick(dtype, m, n, chosen, along)
    spec = parse(dtype, variant, chosen)
    units, rows, columns = spec.units(batch, m, n)
    return Launch(variant, units, grain(2.0 * (rows + READING) * columns * max(k, 1)))


def grain(flops: float) -> int:
    return max(1, round(PIECE_FLOPS / max(flops, 1.0)))


def pick(
    dtype: str, m: int, n: int, target: Target, along: tuple[bool, bool] = (False, False)
) -> str:
    """Vectors lie along the columns of C, or along its rows where columns are few."""
    rows, vectors = full_tile(dtype, target)
    columns = parse(dtype, f"tile{rows}x{vectors}", target).columns
    swapped = n < m and n <= columns
    few, many = (n, m) if swapped else (m, n)
    kind = f"tile{rows}x{vectors}"
    if few <= TURNED and many >= columns and along[not swapped] and NUMBERS[dtype].native:
        kind = f"turned{few}x1" if few > 1 else "turned1x2"
    elif few == 1 and many >= WIDE:
        kind = f"exact1x{4 * vectors}"
    elif 1 < few < min(rows, FEW + 1) and NUMBERS[dtype].planes == 1:
        broad = _broad(few, vectors, target)
        if broad > 1 and many >= broad * columns // vectors:
            kind = f"exact{few}x{broad}"
    return kind + ("_swapped" if swapped else "")


def _broad(rows: int, vectors: int, target: Target) -> int:
    """Vectors of columns beside each other that leave room for one of B each and one of A: a power of two, so that
    panels fill most widths. Few rows that are walked in narrow panels wait for memory at every k."""
    room = (REGISTERS.get(target.name, 32) - 1) // (rows + 1)
    return 1 << (min(room, 4 * vectors).bit_length() - 1)


@lru_cache(maxsize=4096)
def launch_axes(
    dtype: str, batch: int, m: int, n: int, k: int, target: Target | None = None
) -> Launch:
    """The launch of a product whose axes lie in several dimensions (`lower_axes`): vectors lie along n."""
    chosen = target or host()
    rows, vectors = full_tile(dtype, chosen)
    columns = parse(dtype, f"tile{rows}x{vectors}", chosen).columns
    variant = f"tile{rows}x{vectors}"
    if m < min(rows, FEW + 1):
        broad = 4 * vectors if m <= 1 else _broad(m, vectors, chosen)
        if broad > 1 and n >= broad * columns // vectors:
            variant = f"exact{max(m, 1)}x{broad}"
    units, rows, columns = parse(dtype, variant, chosen).units_of_axes(batch, m, n)
    return Launch(variant, units, grain(2.0 * rows * columns * max(k, 1)))
