# cython: language_level=3
"""Lowering of copies, region writes and indexed reads: loops whose text is the same for every program.

It takes regions (slot, byte offset, strides), or a `put`, `cat`, `gather` or `take`. A copy that goes line by line and
is larger than the caches is written past them (streaming stores).
"""

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.weft.engine.capi.growable_array import Array, drop, empty, put, within
from cython.cimports.weft.engine.devices.api import Device, default_device
from cython.cimports.weft.engine.devices.cpu.lowering.loops import launch_loops
from cython.cimports.weft.engine.devices.kernel_call import KernelWork, call_kernel_now, is_callable
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.node import Node, address_of
from cython.cimports.weft.engine.ir.primitive import ELEMENTS, UPDATE
from cython.cimports.weft.engine.pipeline.launch_ir import (
    KernelSpec,
    Lowering,
    joined,
    new_launch,
)
from cython.cimports.weft.engine.pipeline.lowering.kernel_encoder import KernelEncoder, collapse
from cython.cimports.weft.engine.pipeline.lowering.loop_kernel import (
    copy_loop,
    find_spec,
    put_classes,
    put_steps,
    region_key,
)
from cython.cimports.weft.engine.pipeline.lowering.spec_table import look_up, remember
from cython.cimports.weft.engine.pipeline.memory_plan import value_of
from cython.cimports.weft.engine.pipeline.program_ir import MemRef, memref_of, row_major, strides_of

from weft._build.compiled import require
from weft.engine.pipeline.lowering.kernel_encoder import REAL
from weft.engine.pipeline.lowering.spec_table import spec_of

require(__name__, cython.compiled)

_real = cython.declare(cython.int, REAL)
_INDEXED = cython.declare(
    cython.longlong, 1 << 32
)  # begins the key of an indexed read, not of a loop kernel


@cython.cfunc
def lower_copy(
    lowering: Lowering, dtype: DType, shape: tuple, source: tuple, target: tuple
) -> cython.void:
    """Copy between strided regions of one shape; each is (slot, byte offset, strides)."""
    nbytes: cython.longlong = dtype.itemsize
    for size in shape:
        nbytes *= cython.cast(cython.longlong, size)
    _copy(lowering, dtype, shape, source, target, nbytes)


@cython.cfunc
def _copy(
    lowering: Lowering,
    dtype: DType,
    shape: tuple,
    source: tuple,
    target: tuple,
    written: cython.longlong,
) -> cython.void:
    """The same for a part of a copy that writes so many bytes in all."""
    if 0 in shape:
        return
    encoder: KernelEncoder = copy_loop(lowering.program.device, dtype, shape, source[2], target[2])
    if written >= lowering.program.device.tuning.copies.large_bytes and _is_in_lines(encoder):
        from weft.engine.devices.cpu.lowering.streaming_copy import copy_lines

        rows = encoder.dims.words[0] if encoder.rank == 2 else 1
        steps = (encoder.steps.words[0], encoder.steps.words[encoder.wide])
        length = encoder.dims.words[encoder.rank - 1]
        if copy_lines(lowering, dtype.itemsize, (rows, length), source, target, steps, written):
            return
    encoder.spec = find_spec(encoder)
    words: cython.longlong[4]
    words[0], words[1] = source[0], source[1]
    words[2], words[3] = target[0], target[1]
    pointers: Array = within(words, 4)
    pointers.count = 4
    launch_loops(lowering, encoder, cython.address(pointers))


@cython.cfunc
@cython.exceptval(check=False)
def _is_in_lines(encoder: KernelEncoder) -> cython.bint:
    """True if a copy moves lines without gaps, on both sides."""
    rank: cython.Py_ssize_t = encoder.rank
    steps: cython.p_longlong = encoder.steps.words
    return 0 < rank <= 2 and steps[rank - 1] == 1 and steps[encoder.wide + rank - 1] == 1


@cython.cfunc
def lower_region(lowering: Lowering, node: Node) -> cython.void:
    """put: the base, then the region over it. cat: every part into its region."""
    strides: tuple = row_major(node.shape)
    slot = value_of(lowering.plan, node).slot
    size: cython.longlong = node.dtype.itemsize
    part: Node
    if node.op.form == UPDATE:
        part = node.inputs[1]
        offset, region = node.params
        copy_base(lowering, node, node.inputs[0])
        target = (slot, offset * size, region)
        lower_copy(lowering, node.dtype, part.shape, lowering.region_of(part), target)
        return
    start: cython.longlong = 0
    written: cython.longlong = node.numel * size
    axis: cython.Py_ssize_t = node.params[0]
    step: cython.longlong = strides[axis]
    for part in node.inputs:
        target = (slot, start * step * size, strides)
        _copy(lowering, node.dtype, part.shape, lowering.region_of(part), target, written)
        start += cython.cast(cython.longlong, part.shape[axis])
    lowering.launches = joined([[launch] for launch in lowering.launches])


@cython.cfunc
def copy_base(lowering: Lowering, node: Node, base: Node) -> cython.void:
    """The base where the result is to be, unless it is there."""
    memref: MemRef = memref_of(lowering.program, base)
    slot = value_of(lowering.plan, node).slot
    if memref.root in lowering.plan.in_place and memref.value.slot == slot:
        return
    target = (slot, 0, row_major(node.shape))
    lower_copy(lowering, node.dtype, node.shape, lowering.region_of(base), target)


@cython.cfunc
def lower_indexed(lowering: Lowering, node: Node) -> cython.void:
    """gather and take: a load through index values."""
    if node.numel == 0:
        return
    table: Node = node.inputs[0]
    index: Node = node.inputs[1]
    axis: cython.Py_ssize_t = node.params[0]
    memref: MemRef = memref_of(lowering.program, table)
    index_memref: MemRef = memref_of(lowering.program, index)
    encoder: KernelEncoder = _indexed(
        lowering.program.device, node, memref.strides, index_memref.strides
    )
    words: cython.longlong[8]
    words[0], words[1] = index_memref.value.slot, index_memref.offset * index.dtype.itemsize
    words[2], words[3] = memref.value.slot, memref.offset * node.dtype.itemsize
    words[4], words[5] = value_of(lowering.plan, node).slot, 0
    words[6], words[7] = -1, 0
    pointers: Array = within(words, 8)
    pointers.count = 8
    step: cython.longlong = memref.strides[axis]
    extent: cython.longlong = table.shape[axis]
    units: cython.longlong = encoder.dims.words[0]
    grain_size: cython.longlong = _grain_size(encoder)
    spec: KernelSpec = _indexed_spec(encoder)
    arguments: cython.pointer(Array) = _put_indexed(encoder, step, extent)
    new_launch(lowering, spec, cython.address(pointers), arguments, units, grain_size, node.numel)


@cython.cfunc
def call_indexed(node: Node, target: uintptr_t) -> cython.bint:
    """Run a gather or take whose operands are computed into memory of its size, now; False where its kernel is not
    compiled, or an index does not hold."""
    table: Node = node.inputs[0]
    index: Node = node.inputs[1]
    if table.buffer is None or index.buffer is None:
        return False
    if not is_callable(node.numel):
        return False
    strides: tuple = strides_of(table)
    encoder: KernelEncoder = _indexed(default_device(), node, strides, strides_of(index))
    spec: KernelSpec = _indexed_spec(encoder)
    if spec.code is None:
        return False
    axis: cython.Py_ssize_t = node.params[0]
    work: KernelWork
    work.units, work.grain_size = encoder.dims.words[0], _grain_size(encoder)
    work.cost_ns = node.numel
    arguments: cython.pointer(Array) = _put_indexed(encoder, strides[axis], table.shape[axis])
    status: int64_t = 0
    pointers: cython.p_void[4]
    pointers[0] = address_of(index)
    pointers[1] = address_of(table)
    pointers[2] = cython.cast(cython.p_void, target)
    pointers[3] = cython.address(status)
    words: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), arguments.words)
    call_kernel_now(spec.code, pointers, 4, words, arguments.count, work)
    return status == 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _grain_size(encoder: KernelEncoder) -> cython.longlong:
    """The least units of an indexed read that a thread takes."""
    return 1024 if encoder.rank == 1 else 1


@cython.cfunc
def _indexed(
    device: Device, node: Node, table_strides: tuple, index_strides: tuple
) -> KernelEncoder:
    """The loops of a gather or take over operands with these strides."""
    index: Node = node.inputs[1]
    axis: cython.Py_ssize_t = node.params[0]
    rank: cython.Py_ssize_t = len(node.shape)
    strides: tuple
    if node.op.form == ELEMENTS:
        strides = tuple([0 if i == axis else table_strides[i] for i in range(rank)])
    else:
        inner: cython.Py_ssize_t = len(index.shape)
        strides = table_strides[:axis] + (0,) * inner + table_strides[axis + 1 :]
        index_strides = (0,) * axis + index_strides
        index_strides += (0,) * (rank - len(index_strides))
    encoder: KernelEncoder = KernelEncoder.__new__(KernelEncoder)
    encoder.device = device
    encoder.start(node.shape, None)
    for part, stride in ((index, index_strides), (node, strides)):
        code: cython.int = cython.cast(Node, part).dtype.code
        at = encoder.region(cython.address(encoder.operands), code, _real, 0, False)
        _set_steps(encoder, at, stride)
    at = encoder.region(cython.address(encoder.stores), node.dtype.code, _real, 1, False)
    _set_steps(encoder, at, row_major(node.shape))
    collapse([encoder])
    return encoder


@cython.cfunc
@cython.exceptval(-1, check=False)
def _set_steps(encoder: KernelEncoder, at: cython.Py_ssize_t, strides: tuple) -> cython.int:
    axis: cython.Py_ssize_t
    for axis in range(len(strides)):
        encoder.steps.words[at + axis] = strides[axis]
    return 0


@cython.cfunc
def _put_indexed(
    encoder: KernelEncoder, stride: cython.longlong, extent: cython.longlong
) -> cython.pointer(Array):
    """The arguments of an indexed read, put behind the sizes of its loops; `stride` and `extent` are the table's."""
    arguments: cython.pointer(Array) = cython.address(encoder.dims)
    put_steps(encoder, cython.address(encoder.operands), arguments)
    put(arguments, stride)
    put(arguments, extent)
    put_steps(encoder, cython.address(encoder.stores), arguments)
    return arguments


@cython.cfunc
def _indexed_spec(encoder: KernelEncoder) -> KernelSpec:
    words: Array = empty()
    try:
        put(cython.address(words), encoder.device.number)
        put(cython.address(words), _INDEXED)
        put(cython.address(words), encoder.rank)
        put_classes(encoder, cython.address(encoder.operands), 0, cython.address(words))
        put_classes(encoder, cython.address(encoder.operands), 1, cython.address(words))
        put_classes(encoder, cython.address(encoder.stores), 0, cython.address(words))
        spec = look_up(cython.address(words))
        if spec is None:
            spec = _new_indexed_spec(encoder)
            remember(cython.address(words), spec)
    finally:
        drop(cython.address(words))
    return spec


@cython.cfunc
def _new_indexed_spec(encoder: KernelEncoder) -> KernelSpec:
    key = (
        "indexed",
        encoder.rank,
        tuple([region_key(encoder, cython.address(encoder.operands), i) for i in range(2)]),
        region_key(encoder, cython.address(encoder.stores), 0)[1],
    )
    return spec_of(encoder.device, key, ["indexed"], False, True)


def contiguous(lowering: Lowering, node: Node):
    """(slot, byte offset) of a value in row-major order, copied to a temporary where it is not."""
    slot, offset, strides = lowering.region_of(node)
    dense = row_major(node.shape)
    if strides == dense:
        return slot, offset
    target = lowering.temporary(node.numel * node.dtype.itemsize)
    lower_copy(lowering, node.dtype, node.shape, (slot, offset, strides), (target, 0, dense))
    return target, 0
