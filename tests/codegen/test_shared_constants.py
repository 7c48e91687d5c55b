"""The scheduler computes sizes with numbers that the kernels have too, without importing what needs llvmlite."""

from __future__ import annotations

from weft.codegen import ir
from weft.schedule import fuse, loops, staging


def test_the_scheduler_and_the_kernels_have_the_same_numbers() -> None:
    assert (loops.BLOCK, loops.MARGIN) == (ir.BLOCK, ir.MARGIN)
    assert (fuse.LONGEST_ROW, staging.LANES) == (ir.LONGEST_ROW, ir.LANES)
