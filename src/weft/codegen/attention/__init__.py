"""Scaled dot product attention and its gradient, generated for one target; the scores are never held as a whole.

The result is defined row by row.  Keys come in tiles of 64 from the first on.  A score is one
ascending chain of fused multiply-adds over the depth, then times the scale, then plus the mask.  A
row carries its largest score, the sum of its powers in sixteen lanes (key j in lane j mod 16) and
its sums over values; a tile that raises the largest score first rescales both by one power.  Each
sum over values is an ascending chain over the keys.  In the end the lanes are folded by halves, and
the sums multiplied by the reciprocal of the total.  A row whose keys are all masked is zero.  The
gradient makes each tile of probabilities again from the largest score and the reciprocal, which the
forward kernel leaves beside its result: the gradient of a query is a chain over keys, those of keys
and values are chains over the queries of all heads that share them.  So bits depend on nothing but
a row's own operands: not on the batch, other rows, strides, the split into units, or the processor.

`lower_attention` writes the LLVM IR of a variant; `launch_attention` and `launch_gradient` say in
how many units a shape is cut.  The layout of pointers and arguments stands in `frame`.
"""

from __future__ import annotations

from llvmlite import ir

from ..gemm.choose import grain
from ..gemm.spec import parse
from ..target import Target, host
from ..text import module_text
from .backward import Backward
from .forward import Forward
from .frame import LARGEST, panel_rows, tile_name

__all__ = ["LARGEST", "launch_attention", "launch_gradient", "lower_attention"]


def lower_attention(dtype: str, name: str, variant: str, target: Target | None = None) -> str:
    """LLVM IR of kernel `name`: variant "forward" or "backward", with "_masked" where a mask is added."""
    chosen = target or host()
    spec = parse(dtype, tile_name(dtype, chosen), chosen)
    kind, _, masked = variant.partition("_")
    module = ir.Module(name)
    made = Forward if kind == "forward" else Backward
    builders = made(module, name, spec, masked == "masked").build()
    return module_text(module, builders, chosen.register_bits)


def launch_attention(
    dtype: str, matrices: int, rows: int, keys: int, depth: int, target: Target | None = None
) -> tuple[int, int]:
    """Units of the forward kernel, blocks of rows of each of `matrices` heads, and the least piece for a thread."""
    most = panel_rows(
        parse(dtype, tile_name(dtype, target or host()), target or host()), Forward.PANELS
    )
    units = matrices * -(-rows // most)
    return units, grain(4.0 * min(rows, most) * keys * depth)


def launch_gradient(matrices: int, rows: int, keys: int, depth: int) -> tuple[int, int]:
    """Units of the backward kernel, one for each of `matrices` heads of keys, and the least piece for a thread."""
    return matrices, grain(10.0 * rows * keys * depth)
