"""Layout constants of the CPU's generated code; no value depends on them."""

from __future__ import annotations

from weft.engine.kernels import reduction_order

LANES = reduction_order.LANES  # elements of a vector, the number of partial results of a reduction
ALIGNMENT = 64  # bytes: a line of the caches, and the longest vector
MARGIN = (
    64  # columns of a scratch row in addition to the kernel's: the last vector is written whole
)
LONGEST_ROW = 16384  # elements of a row that a row kernel can keep on its stack
