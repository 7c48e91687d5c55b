# cython: language_level=3
"""Row kernels on the CPU: a unit of work is a row of the outermost axis; in kernels with sums over rows, a lane in
which rows are added up (`reduction_order`).
"""

import cython
from cython.cimports.weft.engine.capi.growable_array import Array, drop, empty, put, reserve
from cython.cimports.weft.engine.devices.cpu.lowering.loops import lower_loops
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.launch_ir import Launch, Lowering, new_launch
from cython.cimports.weft.engine.pipeline.lowering.kernel_encoder import KernelEncoder
from cython.cimports.weft.engine.pipeline.lowering.loop_kernel import put_arguments, put_pointers
from cython.cimports.weft.engine.pipeline.lowering.row_kernel import RowKernelEncoder
from cython.cimports.weft.engine.pipeline.memory_plan import value_of
from cython.cimports.weft.engine.pipeline.program_ir import Kernel

from weft._build.compiled import require
from weft.engine.kernels.reduction_order import LANES

require(__name__, cython.compiled)

_lanes = cython.declare(cython.longlong, LANES)


@cython.cfunc
def lower_kernel(lowering: Lowering, kernel: Kernel) -> cython.void:
    """Launch a prepared kernel."""
    if not kernel.is_row_kernel or kernel.prepared is None:
        lower_loops(lowering, kernel)
        return
    encoder: RowKernelEncoder = kernel.prepared
    builder: KernelEncoder = encoder.phases[0]
    total: cython.longlong = 1
    axis: cython.Py_ssize_t
    for axis in range(builder.rank):
        total *= builder.dims.words[axis]
    units: cython.longlong = builder.dims.words[0]
    chunk: cython.longlong = lowering.program.device.tuning.threads.chunk_elements
    grain_size: cython.longlong = max(1, chunk * units // max(total, 1))
    cost_ns: cython.longlong = 0
    arguments: cython.pointer(Array) = cython.address(builder.dims)
    pointers: Array = empty()
    try:
        for builder in encoder.phases:
            put_pointers(lowering, builder, cython.address(pointers))
            put_arguments(builder, arguments)
            cost_ns += total * (builder.body_count + 1) // 8 + 1
        if encoder.columns:
            _launch_sums(lowering, encoder, cython.address(pointers), arguments, cost_ns)
            return
        new_launch(
            lowering, encoder.spec, cython.address(pointers), arguments, units, grain_size, cost_ns
        )
    finally:
        drop(cython.address(pointers))


@cython.cfunc
def _launch_sums(
    lowering: Lowering,
    encoder: RowKernelEncoder,
    pointers: cython.pointer(Array),
    arguments: cython.pointer(Array),
    cost_ns: cython.longlong,
) -> cython.void:
    """A launch over the lanes that rows belong to, and one that folds their sums."""
    node: Node
    nbytes: cython.longlong = 0
    builder: KernelEncoder = encoder.phases[0]
    length: cython.longlong = arguments.words[builder.rank - 1]
    reserve(pointers, 2 * len(encoder.columns) + 2)
    for node in encoder.columns:
        nbytes += node.dtype.itemsize * (length + _lanes) * _lanes
    put(pointers, lowering.temporary(nbytes))
    put(pointers, 0)
    for node in encoder.columns:
        put(pointers, value_of(lowering.plan, node).slot)
        put(pointers, 0)
    new_launch(lowering, encoder.spec, pointers, arguments, _lanes, 1, cost_ns)
    chunk: cython.longlong = lowering.program.device.tuning.threads.chunk_added_columns
    last: Launch = new_launch(
        lowering, encoder.spec, pointers, arguments, length, chunk, 2 * length
    )
    last.final = True
