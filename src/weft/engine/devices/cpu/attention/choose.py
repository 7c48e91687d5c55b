"""The grid of attention: the number of units of a shape, and the tiles of its kernels."""

from __future__ import annotations

from weft.engine.devices.cpu.gemm.choose import grain_size
from weft.engine.devices.cpu.gemm.spec import DEPTH, Spec, full_tile, parse
from weft.engine.devices.cpu.llvm.target import Target, host

LARGEST = DEPTH  # of depth and width of one head
PANELS = 10  # of rows, which the forward kernel walks together


def tile_name(dtype: str, target: Target) -> str:
    """The variant of the products' tile, by its name."""
    rows, vectors = full_tile(dtype, target)
    return f"tile{rows}x{vectors}"


def panel_rows(spec: Spec, panels: int) -> int:
    """Rows of `panels` full tiles of a processor with registers for 14; as many on others."""
    return panels * 14 // spec.rows * spec.rows


def launch_attention(
    dtype: str, matrices: int, rows: int, keys: int, depth: int, target: Target | None = None
) -> tuple[int, int]:
    """Units of the forward kernel, blocks of rows of each of `matrices` heads, and the least piece for a thread."""
    chosen = target or host()
    most = panel_rows(parse(dtype, tile_name(dtype, chosen), chosen), PANELS)
    units = matrices * -(-rows // most)
    return units, grain_size(4.0 * min(rows, most) * keys * depth)


def launch_gradient(matrices: int, rows: int, keys: int, depth: int) -> tuple[int, int]:
    """Units of the backward kernel, one for each of `matrices` heads of keys, and the least piece for a thread."""
    return matrices, grain_size(10.0 * rows * keys * depth)
