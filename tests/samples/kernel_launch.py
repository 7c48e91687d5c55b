"""Launch loop kernels on NumPy arrays: compiled once, split as asked, the layout checked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from kernel_jit import Function, address, element_strides
from weft.engine.devices.cpu.codegen import loop_kernel, schedule
from weft.engine.devices.cpu.codegen.schedule import scheduled
from weft.engine.devices.cpu.llvm.target import Target, host
from weft.engine.kernels.loop_ir import LoopKernel


def lookup(op: str):
    """Every op of these tests is the emitter's method of the same name."""

    def lower(emitter, dtype, *values):
        return getattr(emitter, op)(*values)

    return lower


@cache
def compiled(kernel: LoopKernel, target: Target) -> Function:
    """The functions of a kernel for a target."""
    kernel = scheduled(kernel)
    source = loop_kernel.lower(kernel, lookup, "kernel", target)
    symbols = ["kernel", "kernel_final"] if kernel.full or kernel.apart else ["kernel"]
    return Function(source, symbols, target)


def launch(
    kernel: LoopKernel,
    dims: Sequence[int],
    operands: Sequence[np.ndarray],
    stores: Sequence[np.ndarray],
    virtual: dict[int, Sequence[int]] | None = None,
    indexes: dict[int, Sequence[tuple[int, int]]] | None = None,
    splits: Sequence[int] = (),
    target: Target | None = None,
) -> int:
    """Run a kernel, its units cut at the multiples of the grain given by `splits`; the status.

    `operands` are the real ones, broadcast to the loop; `virtual` gives strides of the others,
    `indexes` the (stride, extent) of gathered axes.
    """
    kernel = scheduled(kernel)
    function = compiled(kernel, target or host())
    units, grain_size, scratch_bytes = loop_kernel.launch_shape(kernel, dims)
    arrays = iter(operands)
    arguments = list(dims)
    for number, operand in enumerate(kernel.operands):
        strides = virtual[number] if operand.virtual else element_strides(next(arrays))
        arguments += strides
        for pair in (indexes or {}).get(number, ()):
            arguments += pair
    for store in stores:
        arguments += [*element_strides(store), *[0] * (len(dims) - store.ndim)]
    status = np.zeros(1, np.int64)
    scratch = np.zeros(scratch_bytes + 64, np.uint8)
    pointers = [address(array) for array in (*operands, *stores)]
    pointers += [address(scratch)] * (kernel.full or kernel.apart) + [
        address(status)
    ] * kernel.checked
    assert len(pointers) == len(schedule.pointers(kernel))
    assert len(arguments) == len(schedule.arguments(kernel))
    cuts = sorted({0, units, *(min(units, cut * grain_size) for cut in splits)})
    for begin, end in zip(cuts, cuts[1:], strict=False):
        function("kernel", pointers, arguments, begin, end)
    if kernel.full or kernel.apart:
        function("kernel_final", pointers, arguments, 0, dims[0] if kernel.apart else 0)
    return int(status[0])
