"""Code generation for loop kernels: the text of an LLVM module, and the grid of their launches.

It takes a verified `LoopKernel` and the lowering of each op, and writes a module with one function (two where blocks
of a reduction are units of work) of the common signature. Elementwise kernels are written here; rows and columns of
reductions have modules of their own. The module does not depend on sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from llvmlite import ir as llvm

from weft.engine.devices.cpu.codegen import reduce_columns, reduce_columns_split, reduce_rows
from weft.engine.devices.cpu.codegen.evaluator import Lookup, Stage, vector_lanes
from weft.engine.devices.cpu.codegen.loop_nest import LoopFrame, LoopScope
from weft.engine.devices.cpu.codegen.schedule import LoopSchedule, Scheduled, scheduled
from weft.engine.devices.cpu.codegen.transposed_kernel import Tiles, transposed_operands
from weft.engine.devices.cpu.llvm.builder import Builder, integer, module_text
from weft.engine.devices.cpu.llvm.target import Target, host
from weft.engine.kernels import loop_ir, reduction_order

ELEMENTS_PER_GRAIN = 1024
COLUMNS_PER_GRAIN = 64
BLOCKS_PER_GRAIN = 4


def lower(
    kernel: loop_ir.LoopKernel,
    lookup: Lookup,
    name: str,
    target: Target | None = None,
    schedule: LoopSchedule | None = None,
) -> str:
    """The LLVM module of a kernel: function `name`, and `name`_final where blocks are units of work."""
    kernel, target = scheduled(kernel, schedule), target or host()
    module = llvm.Module(name)
    if kernel.full:
        builders = reduce_rows.lower_full(kernel, lookup, target, module, name)
    elif kernel.apart:
        builders = reduce_columns_split.lower_apart(kernel, lookup, target, module, name)
    else:
        builder = Builder(module, name)
        frame = _Scalar(kernel, builder) if kernel.rank == 0 else LoopFrame(kernel, builder)
        _lower(frame, lookup, target)
        builder.ret_void()
        builders = [builder]
    return module_text(module, builders, target.register_bits)


def _lower(frame: LoopFrame, lookup: Lookup, target: Target) -> None:
    if frame.kernel.across:
        reduce_columns.lower(frame, lookup, target, vector_lanes(frame.kernel, target))
    elif frame.kernel.reduced:
        reduce_rows.lower(frame, lookup, target)
    else:
        elementwise(frame, lookup, target)


class _Scalar(LoopFrame):
    """The frame of a kernel of rank 0, which runs as one of rank 1 and extent 1."""

    def __init__(self, kernel: Scheduled, builder: Builder) -> None:
        super().__init__(kernel, builder)
        self.dims = [integer(1)]
        self.kernel = replace(
            kernel,
            rank=1,
            operands=tuple(replace(item, strides=("0",)) for item in kernel.operands),
            stores=tuple(replace(item, strides=("0",)) for item in kernel.stores),
        )


def elementwise(frame: LoopFrame, lookup: Lookup, target: Target) -> None:
    """Loops around windows of the last axis."""
    kernel = frame.kernel
    order = tuple(range(kernel.rank))
    stage = Stage(frame, lookup, target, "body", order, vector_lanes(kernel, target))
    root = frame.root()
    stage.uniform(root, -1)
    crossed = transposed_operands(kernel, target)
    if crossed:
        frame.nest(root, order[:-2], Tiles(frame, stage, crossed).loops, stage.entered)
        return

    def row(scope: LoopScope) -> None:
        units = kernel.rank == 1
        start = frame.begin if units else integer(0)
        stage.windows(scope, start, frame.end if units else frame.dims[-1], [])

    frame.nest(root, order[:-1], row, stage.entered)


def launch_shape(kernel: Scheduled, dims: Sequence[int]) -> tuple[int, int, int]:
    """Units of work, the grain at which they may be split, and bytes of scratch."""
    if kernel.rank == 0:
        return 1, 1, 0
    if kernel.full:
        units = -(-prod(dims) // reduction_order.BLOCK)
        return units, BLOCKS_PER_GRAIN, units * reduce_rows.partial_bytes(kernel)
    if prod(dims[: kernel.parallel]) == 0:
        return 0, 1, 0
    if kernel.apart:
        units = -(-prod(dims[1:]) // reduction_order.BLOCK)
        return units, 1, reduce_columns_split.scratch_bytes(kernel, dims[0], units)
    if kernel.rank == 1:
        return dims[0], ELEMENTS_PER_GRAIN, 0
    if kernel.across and kernel.parallel == 1:
        return dims[0], COLUMNS_PER_GRAIN, 0
    return dims[0], max(1, ELEMENTS_PER_GRAIN // max(1, prod(dims[1:]))), 0
