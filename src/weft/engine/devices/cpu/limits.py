"""Numbers that the CPU's generated code is laid out by; no value depends on them."""

from __future__ import annotations

from weft.engine.kernels import reduction_order

LANES = reduction_order.LANES  # elements of a vector: as many as a reduction has partial results
ALIGNMENT = 64  # bytes: a line of the caches, and the longest vector
MARGIN = 64  # columns of a row of scratch beyond the kernel's: the last vector is written whole
LONGEST_ROW = 16384  # elements of a row that a row kernel can keep on its stack
