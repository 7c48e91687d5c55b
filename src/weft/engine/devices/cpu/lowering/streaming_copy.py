"""Lowering of large copies: decides whether one is written past the caches, and makes its launch
(`weft.engine.devices.cpu.kernels.streaming_copy`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.engine.pipeline.launch_ir import Lowering


Region = tuple[int, int, *tuple[object, ...]]  # slot, byte offset, and what the copy knows already


@cache
def _spec() -> Any:
    from weft.engine.devices.cpu.kernels.streaming_copy import lower_lines
    from weft.engine.pipeline.launch_ir import KernelSpec

    return KernelSpec("lines", lower_lines, ("lines",))


def copy_lines(
    lowering: Lowering,
    itemsize: int,
    shape: tuple[int, int],
    source: Region,
    target: Region,
    steps: tuple[int, int],
    written: int,
) -> bool:
    """Append the copy of (lines, elements of one) between regions, (slot, byte offset, ...) each, whose lines begin
    `steps` elements after each other, if all that is read and `written`, in bytes, fills the last cache and lines are
    long; whether that is so."""
    from weft.engine.devices.cpu.kernels.streaming_copy import launch_lines
    from weft.engine.devices.cpu.llvm.target import last_cache

    tuning = lowering.program.device.tuning.copies
    rows, length = shape[0], shape[1] * itemsize
    if 2 * written < last_cache() or length < tuning.streamed_line_bytes:
        return False
    apart = tuple(step * itemsize for step in steps)
    chunk = tuning.streamed_chunk_bytes
    if rows == 1 and length % chunk == 0:  # one line is several
        rows, length = length // chunk, chunk
        apart = (length, length)
    units, grain_size = launch_lines(rows, length)
    arguments = [rows, length, *apart]
    cost_ns = rows * length // 16
    lowering.add(_spec(), [source[:2], target[:2]], arguments, units, grain_size, cost_ns)
    return True
