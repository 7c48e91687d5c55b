"""Scaled dot product attention and its gradient by tiles (flash attention), generated for one target; the scores are
never held as a whole.

The result is defined row by row. Keys come in tiles of 64 from the first on. A score is one ascending chain of fused
multiply-adds over the depth, then times the scale, then plus the mask. A row carries its largest score, the sum of its
powers in sixteen lanes (key j in lane j mod 16) and its sums over values; a tile that raises the largest score first
rescales both by one power. Each sum over values is an ascending chain over the keys. In the end the lanes are folded
by halves, and the sums multiplied by the reciprocal of the total. A row whose keys are all masked is zero. The
gradient makes each tile of probabilities again from the largest score and the reciprocal, which the forward kernel
stores with its result: the gradient of a query is a chain over keys, those of keys and values are chains over the
queries of all heads that share them. So bits depend on nothing but a row's own operands: not on the batch, other rows,
strides, the split into units, or the processor.

`lower_attention` writes the LLVM IR of a variant; `launch_attention` and `launch_gradient` say in how many units a
shape is cut. `frame` has the layout of pointers and arguments.
"""

from __future__ import annotations

from weft.engine.devices.cpu.attention.choose import LARGEST, launch_attention, launch_gradient
from weft.engine.devices.cpu.llvm.target import Target, host

__all__ = ["LARGEST", "launch_attention", "launch_gradient", "lower_attention"]


def lower_attention(dtype: str, name: str, variant: str, target: Target | None = None) -> str:
    """LLVM IR of kernel `name`: variant "forward" or "backward", with "_masked" where a mask is added."""
    from weft.engine.devices.cpu.attention.writing import attention

    return attention(dtype, name, variant, target or host())
