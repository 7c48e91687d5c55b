# cython: language_level=3
"""Loop kernels on the CPU: which axis is vectorized, and how the work is divided.

It takes a `KernelEncoder` whose axes have been collapsed and gives its schedule, as a word that `codegen.schedule`
reads, and its launches: one, or if blocks of a reduction are units of work, also one for the sums of blocks.
"""

import cython
from cython.cimports.weft.engine.capi.growable_array import Array, drop, empty, put
from cython.cimports.weft.engine.devices.cpu.lowering.loops import AXIS, NARROW
from cython.cimports.weft.engine.devices.tuning import Reductions, Threads
from cython.cimports.weft.engine.pipeline.launch_ir import KernelSpec, Launch, Lowering, new_launch
from cython.cimports.weft.engine.pipeline.lowering.kernel_encoder import REGION, KernelEncoder
from cython.cimports.weft.engine.pipeline.lowering.loop_kernel import put_arguments, put_pointers
from cython.cimports.weft.engine.pipeline.program_ir import Kernel

from weft._build.compiled import require
from weft.engine.kernels.reduction_order import BLOCK
from weft.engine.pipeline.lowering.kernel_encoder import REAL

require(__name__, cython.compiled)

_block = cython.declare(cython.longlong, BLOCK)
_real = cython.declare(cython.int, REAL)
_WHOLE = cython.declare(
    cython.int, 100
)  # how much more an operand counts that is read as a whole than a line of one


@cython.cfunc
@cython.exceptval(check=False)
def schedule_of(encoder: KernelEncoder) -> cython.longlong:
    """The schedule of a kernel, as `codegen.schedule.LoopSchedule.of` reads it."""
    axis: cython.Py_ssize_t = vector_axis_of(encoder)
    return (axis + 1) | (NARROW if is_narrow(encoder, axis) else 0)


@cython.cfunc
@cython.exceptval(check=False)
def ends(encoder: KernelEncoder) -> cython.bint:
    """True if blocks of a reduction are units of work, and another function folds their results."""
    if encoder.reduced == encoder.rank:
        return encoder.rank > 0
    return encoder.rank - encoder.reduced == 1 and encoder.schedule & NARROW != 0


@cython.cfunc
@cython.exceptval(check=False)
def vector_axis_of(encoder: KernelEncoder) -> cython.Py_ssize_t:
    """Across outputs where the reduced inner axis is strided and the last parallel one is unit, else along."""
    rank: cython.Py_ssize_t = encoder.rank
    if encoder.reduced == 0 or rank == encoder.reduced:
        return rank - 1
    outer: cython.Py_ssize_t = rank - encoder.reduced - 1
    across: cython.int = 0
    along: cython.int = 0
    place: cython.Py_ssize_t = 0
    while place < encoder.operands.count:
        steps: cython.p_longlong = encoder.steps.words + encoder.operands.words[place + 2]
        if encoder.operands.words[place + 1] == _real:
            if steps[rank - 1] == 1:
                along += _WHOLE if steps[outer] != 0 else 1
            elif steps[rank - 1] != 0 and steps[outer] == 1:
                across += _WHOLE
        place += REGION
    return outer if across > along else rank - 1


@cython.cfunc
@cython.exceptval(check=False)
def is_narrow(encoder: KernelEncoder, axis: cython.Py_ssize_t) -> cython.bint:
    """True if a reduction that is vectorized across rows has few columns, of many rows."""
    outer: cython.Py_ssize_t = encoder.rank - encoder.reduced
    rows: cython.longlong = 1
    number: cython.Py_ssize_t
    if encoder.reduced == 0 or axis != outer - 1 or axis < 0:
        return False
    for number in range(outer, encoder.rank):
        rows *= encoder.dims.words[number]
    tuning: Reductions = encoder.device.tuning.reductions
    return encoder.dims.words[axis] < tuning.narrow_columns and rows >= tuning.tall_rows


@cython.cfunc
def lower_loops(lowering: Lowering, kernel: Kernel) -> cython.void:
    """Launch a prepared kernel."""
    if kernel.prepared is None:
        return
    encoder: KernelEncoder = kernel.prepared
    pointers: Array = empty()
    try:
        put_pointers(lowering, encoder, cython.address(pointers))
        launch_loops(lowering, encoder, cython.address(pointers))
    finally:
        drop(cython.address(pointers))


@cython.cfunc
def launch_loops(
    lowering: Lowering, encoder: KernelEncoder, pointers: cython.pointer(Array)
) -> cython.void:
    """Append the launches of a kernel with these pointers: one, or where all axes are reduced another one for the
    sums of blocks."""
    spec: KernelSpec = encoder.spec
    rank: cython.Py_ssize_t = encoder.rank
    total: cython.longlong = 1
    axis: cython.Py_ssize_t
    for axis in range(rank):
        total *= encoder.dims.words[axis]
    arguments: cython.pointer(Array) = cython.address(encoder.dims)
    put_arguments(encoder, arguments)
    cost_ns: cython.longlong = total * (encoder.body_count + 1) // 8 + 1
    units: cython.longlong = arguments.words[0]
    tuning: Threads = lowering.program.device.tuning.threads
    chunk: cython.longlong = tuning.chunk_elements
    grain_size: cython.longlong = chunk if rank == 1 else max(1, chunk * units // max(total, 1))
    if encoder.reduced == rank:
        units = (total + _block - 1) // _block
        nbytes: cython.longlong = max(units, 1) * 16 * (encoder.reduces.count // 3) * 2 + 64
        put(pointers, lowering.temporary(nbytes))
        put(pointers, 0)
        new_launch(lowering, spec, pointers, arguments, units, tuning.chunk_blocks, cost_ns)
        last: Launch = new_launch(lowering, spec, pointers, arguments, 1, 1, 0)
        last.final = True
        return
    if rank - encoder.reduced == 1 and encoder.schedule & NARROW:
        _launch_blocks(lowering, encoder, pointers, total // units, cost_ns)
        return
    axis = (encoder.schedule & AXIS) - 1
    if encoder.reduced and axis < rank - 1 and rank - encoder.reduced == 1:
        grain_size = tuning.chunk_columns
    new_launch(lowering, spec, pointers, arguments, units, grain_size, cost_ns)


@cython.cfunc
def _launch_blocks(
    lowering: Lowering,
    encoder: KernelEncoder,
    pointers: cython.pointer(Array),
    rows: cython.longlong,
    cost_ns: cython.longlong,
) -> cython.void:
    """Append the launches of a kernel whose blocks are units of work: the blocks, then the columns."""
    arguments: cython.pointer(Array) = cython.address(encoder.dims)
    columns: cython.longlong = arguments.words[0]
    blocks: cython.longlong = (rows + _block - 1) // _block
    pitch: cython.longlong = columns + lowering.program.device.capabilities.scratch_margin
    nbytes: cython.longlong = blocks * pitch * 16 * (encoder.reduces.count // 3)
    put(pointers, lowering.temporary(nbytes))
    put(pointers, 0)
    new_launch(lowering, encoder.spec, pointers, arguments, blocks, 1, cost_ns)
    chunk: cython.longlong = lowering.program.device.tuning.threads.chunk_columns
    last: Launch = new_launch(lowering, encoder.spec, pointers, arguments, columns, chunk, 0)
    last.final = True
