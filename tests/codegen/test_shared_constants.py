"""The scheduler computes sizes with numbers that the kernels have too, without importing what needs llvmlite."""

from __future__ import annotations

from weft.engine.kernels import loop_ir
from weft.engine.pipeline.fusion import regions
from weft.engine.pipeline.lowering import loop_kernel, row_kernel


def test_the_scheduler_and_the_kernels_have_the_same_numbers() -> None:
    assert (loop_kernel.BLOCK, loop_kernel.MARGIN) == (loop_ir.BLOCK, loop_ir.MARGIN)
    assert (regions.LONGEST_ROW, row_kernel.LANES) == (loop_ir.LONGEST_ROW, loop_ir.LANES)
