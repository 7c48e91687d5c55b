# cython: language_level=3
"""Direct kernel calls: an elementwise node, a reduction, a region write or a product is one call of one kernel, what
joins values is a call for each, without a program.

It takes a pending node whose operands are computed, merges axes that are one stride in all operands, and finds the
kernel by op, dtypes and stride classes; sizes are arguments, so a graph of new sizes finds known kernels. A kernel
missing from the table is looked up as lowering would, among the same specs. A kernel that is not compiled is not
called here.
"""

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.string import memcmp, memcpy
from cython.cimports.weft.engine.capi.hashing import equal, mix
from cython.cimports.weft.engine.devices.api import Code, Device, default_device
from cython.cimports.weft.engine.devices.kernel_call import KernelWork, call_kernel_now, is_callable
from cython.cimports.weft.engine.devices.tuning import Threads, Tuning
from cython.cimports.weft.engine.ir.memory import OwnedMemory
from cython.cimports.weft.engine.ir.node import Node, address_of, set_buffer
from cython.cimports.weft.engine.ir.primitive import CONCAT, RESHAPE, STACK, UPDATE, Primitive
from cython.cimports.weft.engine.ir.strides import may_meet
from cython.cimports.weft.engine.pipeline.lowering.kernel_encoder import KernelEncoder
from cython.cimports.weft.engine.pipeline.lowering.loop_kernel import copy_loop, find_spec
from cython.cimports.weft.engine.pipeline.memory_plan import _reuse
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    Program,
    row_major,
    strides_of,
)
from cython.cimports.weft.engine.pipeline.single_node import program_of
from cython.cimports.weft.engine.runtime.interpreter import commit
from cython.cimports.weft.engine.runtime.loop_calls import (
    BLOCK_RESULT,
    CALL_SLOTS,
    KEY_WORDS,
    MOST_BLOCKS,
    MOST_OPERANDS,
    MOST_RANK,
    CallFrame,
    Loop,
)
from cython.cimports.weft.engine.runtime.scalar_cells import store_number

from weft._build.compiled import require
from weft.engine.ir.primitive import (
    CONTRACT,
    ELEMENTWISE,
    INDEX,
    REDUCE,
    SCALAR_OP,
    SCATTER,
    SOURCE,
    VIEW,
)
from weft.engine.kernels.reduction_order import BLOCK
from weft.engine.pipeline.memory_plan import is_private

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)
_reduce = cython.declare(cython.int, REDUCE)
_block = cython.declare(cython.longlong, BLOCK)
_scalar_op = cython.declare(Primitive, SCALAR_OP)
_view = cython.declare(cython.int, VIEW)
_contract = cython.declare(cython.int, CONTRACT)
_index = cython.declare(cython.int, INDEX)
_scatter = cython.declare(cython.int, SCATTER)
_source = cython.declare(cython.int, SOURCE)
_COPY = cython.declare(cython.longlong, 0xFFFF)  # in place of the code of an op
_calls = cython.declare(list, [None] * 1024)  # the last one met, by the hash of its key
_known = cython.declare(dict, {})  # all of them, by the bytes of their keys
MOST_CALLS = 1 << 14  # calls in the table at a time


@cython.final
@cython.cclass
class LoopCall:
    """A kernel for nodes of one row, dtypes and classes of strides; without a spec: there is none to call directly."""


@cython.cfunc
def call_loop(node: Node) -> cython.bint:
    """Run an elementwise node or a reduction; False where it is not one to be run so."""
    loop: Loop
    count: cython.Py_ssize_t = len(node.inputs)
    is_reduced: cython.bint = node.op.kind == _reduce
    if not (is_reduced or node.op.kind == _elementwise) or count == 0 or count > MOST_OPERANDS:
        return False
    space: Node = node.inputs[0] if is_reduced else node
    if node.numel == 0 or space.numel == 0 or len(space.shape) > MOST_RANK:
        return False
    tuning: Tuning = default_device().tuning
    if not is_callable(space.numel // 8 * 2) or not _read(node, space, cython.address(loop)):
        return False
    if is_reduced:
        axes: tuple = node.params[0]
        if len(axes) == 0:
            return False
        _put_reduced_last(axes, cython.address(loop))
    _join_axes(cython.address(loop))
    if (
        loop.reduced > 0
        and loop.rank > loop.reduced
        and _rows(cython.address(loop)) >= tuning.reductions.tall_rows
    ):
        return False
    call: LoopCall = _find(node, cython.address(loop))
    if call.spec is None or call.spec.code is None:
        return False
    buffer: OwnedMemory = default_device().memory.allocate(node.numel * node.dtype.itemsize)
    _run(node.inputs, call, cython.address(loop), buffer.address)
    commit(node, buffer, 0, None)
    return True


@cython.cfunc
def call_put(node: Node) -> cython.bint:
    """Write a part of a value into its memory, or into a copy where others see that; False where the node is
    another."""
    if node.op.form != UPDATE or not _is_copied(node.inputs[1]):
        return False
    base: Node = node.inputs[0]
    part: Node = node.inputs[1]
    if part is base or part.dtype is not node.dtype or base.dtype is not node.dtype:
        return False
    start: cython.longlong = cython.cast(cython.longlong, node.params[0]) * node.dtype.itemsize
    buffer: OwnedMemory
    if _reuse and is_private(base, 1 if _is_apart(base, part, node) else 0):
        buffer = base.buffer
        offset: cython.longlong = base.offset
        if not _copy(part, node.params[1], buffer.address + offset + start):
            return False
        set_buffer(base, None)
        commit(node, buffer, offset, None)
        return True
    if not _is_copied(node):
        return False
    buffer = default_device().memory.allocate(node.numel * node.dtype.itemsize)
    if not _copy(base, row_major(node.shape), buffer.address):
        return False
    if not _copy(part, node.params[1], buffer.address + start):
        return False
    commit(node, buffer, 0, None)
    return True


@cython.cfunc
def call_join(node: Node) -> cython.bint:
    """Copy each operand of a concatenation or a stack into its region; False where the node is another, or one of its
    operands is to be converted, or is all that there is: what batching has packed."""
    stacked: cython.bint = node.op.form == STACK
    if not (stacked or node.op.form == CONCAT) or len(node.inputs) < 2 or not _is_copied(node):
        return False
    part: Node
    for part in node.inputs:
        if part.dtype is not node.dtype or part.buffer is None:
            return False
    axis: cython.Py_ssize_t = node.params[0]
    strides: tuple = row_major(node.shape)
    region: tuple = strides[:axis] + strides[axis + 1 :] if stacked else strides
    buffer: OwnedMemory = default_device().memory.allocate(node.numel * node.dtype.itemsize)
    target: uintptr_t = buffer.address
    step: cython.longlong = cython.cast(cython.longlong, strides[axis]) * node.dtype.itemsize
    before: Node = None
    call: LoopCall = None
    loop: Loop
    for part in node.inputs:
        if part.numel > 0:
            if before is None or not _lies_alike(part, before):
                call = _copying(part, region, cython.address(loop))
                before = part
            if call is None:
                return False
            _run((part,), call, cython.address(loop), target)
        target += step * (1 if stacked else cython.cast(cython.longlong, part.shape[axis]))
    commit(node, buffer, 0, None)
    return True


@cython.cfunc
def call_layout(node: Node) -> cython.bint:
    """Copy the operand of a reshape that its strides cannot express; False where the node is another."""
    if node.op.form != RESHAPE or node.op.kind != _view or not _is_copied(node):
        return False
    source: Node = node.inputs[0]
    if source.buffer is None:
        return False
    buffer: OwnedMemory = default_device().memory.allocate(node.numel * node.dtype.itemsize)
    if not _copy(source, row_major(source.shape), buffer.address):
        return False
    commit(node, buffer, 0, None)
    return True


@cython.cfunc
def call_kernel(node: Node) -> cython.bint:
    """Run a node that the device itself knows how to call, as a product or an indexed read; False where it does not. A
    scatter over memory that nobody else sees is left to those who write it in place."""
    kind: cython.int = node.op.kind
    if kind not in (_contract, _index, _scatter) or node.numel == 0:
        return False
    if kind == _scatter and (not _is_copied(node) or is_private(node.inputs[0])):
        return False
    device: Device = default_device()
    buffer: OwnedMemory = device.memory.allocate(node.numel * node.dtype.itemsize)
    if kind == _scatter and not _copy(node.inputs[0], row_major(node.shape), buffer.address):
        return False
    if not device.lowerer().call(node, buffer.address):
        return False
    commit(node, buffer, 0, None)
    return True


@cython.cfunc
def call_source(node: Node) -> cython.bint:
    """Write the positions of elements, which is what a source holds; False where the node is another, or has so many
    that they are shared out."""
    tuning: Threads = default_device().tuning.threads
    if node.op.kind != _source or node.numel == 0 or node.numel >= tuning.split_ns:
        return False
    period: cython.longlong = 1
    axis: cython.Py_ssize_t
    for axis in range(cython.cast(cython.Py_ssize_t, node.params[1]), len(node.shape)):
        period *= cython.cast(cython.longlong, node.shape[axis])
    buffer: OwnedMemory = default_device().memory.allocate(node.numel * node.dtype.itemsize)
    positions: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), buffer.address)
    index: cython.longlong
    for index in range(node.numel):
        positions[index] = index if index < period else positions[index - period]
    commit(node, buffer, 0, None)
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_copied(node: Node) -> cython.bint:
    """True if a node has elements and axes that a copying loop may have; what is far larger than a cache is left to
    those who write around it."""
    if node.numel == 0 or len(node.shape) > MOST_RANK or not is_callable(node.numel // 8 * 2):
        return False
    return node.numel * node.dtype.itemsize < default_device().tuning.copies.large_bytes


@cython.cfunc
def _is_apart(base: Node, part: Node, node: Node) -> cython.bint:
    """True if the written value is a part of the base's own memory, private, and apart from the region that is
    written."""
    if part.buffer is None or part.buffer is not base.buffer or part.external_refs > 0:
        return False
    start: cython.longlong = node.params[0]
    gap: cython.longlong = base.offset + start * node.dtype.itemsize - part.offset
    if gap % node.dtype.itemsize != 0:
        return False
    return not may_meet(part.shape, strides_of(part), node.params[1], gap // node.dtype.itemsize)


@cython.cfunc
def _copy(part: Node, region: tuple, target: uintptr_t) -> cython.bint:
    """Copy a value to memory with these strides; False where that has no compiled kernel."""
    loop: Loop
    call: LoopCall = _copying(part, region, cython.address(loop))
    if call is None:
        return False
    _run((part,), call, cython.address(loop), target)
    return True


@cython.cfunc
def _copying(part: Node, region: tuple, loop: cython.pointer(Loop)) -> LoopCall:
    """The loop, and its call, that copies a value to memory with these strides; None where that has no compiled
    kernel."""
    if not _read_region(part, region, loop):
        return None
    _join_axes(loop)
    call: LoopCall = _find(part, loop, region)
    return None if call.spec is None or call.spec.code is None else call


@cython.cfunc
@cython.inline
def _lies_alike(part: Node, other: Node) -> cython.bint:
    """True if two values of one type are copied by the same loop."""
    return equal(part.shape, other.shape) and equal(part.strides, other.strides)


@cython.cfunc
def _read_region(part: Node, strides: tuple, loop: cython.pointer(Loop)) -> cython.bint:
    """The loop nest that writes a value to a region with these strides."""
    axis: cython.Py_ssize_t
    loop.rank = len(part.shape)
    if loop.rank > MOST_RANK:
        return False
    loop.reduced = 0
    loop.count = 1
    for axis in range(loop.rank):
        loop.dims[axis] = part.shape[axis]
        loop.steps[MOST_RANK + axis] = strides[axis]
    for axis in range(1, MOST_OPERANDS + 1):
        loop.key[axis] = 0
    return _read_steps(part, loop, 0)


@cython.cfunc
def _read(node: Node, space: Node, loop: cython.pointer(Loop)) -> cython.bint:
    """The loop nest of a node, over the axes of `space`, before they are joined, and the words of its key that do not
    depend on them."""
    axis: cython.Py_ssize_t
    index: cython.Py_ssize_t
    count: cython.Py_ssize_t = len(node.inputs)
    rank: cython.Py_ssize_t = len(space.shape)
    source: Node
    step: cython.longlong = 1
    loop.rank = rank
    loop.reduced = 0
    loop.count = count
    for axis in range(rank):
        loop.dims[axis] = space.shape[axis]
    for index in range(count):
        source = node.inputs[index]
        if not _read_steps(source, loop, index):
            return False
        loop.key[1 + index] = source.dtype.code | _first_like(node, index) << 8
    for index in range(count, MOST_OPERANDS):
        loop.key[1 + index] = 0
    for axis in range(rank - 1, -1, -1):
        loop.steps[count * MOST_RANK + axis] = step
        step *= loop.dims[axis]
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def _put_reduced_last(axes: tuple, loop: cython.pointer(Loop)) -> cython.int:
    """Let the reduced axes of a reduction be the last ones, and its result have no steps along them."""
    order: cython.Py_ssize_t[MOST_RANK]
    left: cython.Py_ssize_t = 0
    axis: cython.Py_ssize_t
    step: cython.longlong = 1
    before: Loop = loop[0]
    for axis in range(loop.rank):
        if axis not in axes:
            order[left] = axis
            left += 1
    loop.reduced = len(axes)
    for axis in axes:
        order[left] = axis
        left += 1
    for left in range(loop.rank - 1, -1, -1):
        axis = order[left]
        loop.dims[left] = before.dims[axis]
        loop.steps[left] = before.steps[axis]
        loop.steps[MOST_RANK + left] = 0
        if left < loop.rank - loop.reduced:
            loop.steps[MOST_RANK + left] = step
            step *= loop.dims[left]
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def _rows(loop: cython.pointer(Loop)) -> cython.longlong:
    """The number of elements that are reduced to one."""
    rows: cython.longlong = 1
    axis: cython.Py_ssize_t
    for axis in range(loop.rank - loop.reduced, loop.rank):
        rows *= loop.dims[axis]
    return rows


@cython.cfunc
def _read_steps(source: Node, loop: cython.pointer(Loop), index: cython.Py_ssize_t) -> cython.bint:
    """The steps of one operand along the axes of the result: zero where it is broadcast."""
    steps: cython.p_longlong = loop.steps + index * MOST_RANK
    axis: cython.Py_ssize_t
    size: cython.longlong
    step: cython.longlong = 1
    rank: cython.Py_ssize_t = len(source.shape)
    lead: cython.Py_ssize_t = loop.rank - rank
    if lead < 0 or (source.op is not _scalar_op and source.buffer is None):
        return False
    for axis in range(loop.rank - 1, -1, -1):
        if axis < lead:
            steps[axis] = 0
            continue
        size = source.shape[axis - lead]
        if source.strides is not None:
            step = source.strides[axis - lead]
        steps[axis] = 0 if size == 1 else step
        if source.strides is None:
            step *= size
    return True


@cython.cfunc
def _first_like(node: Node, index: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The number of the first operand that is the same value as one of a node; numbers are asked for theirs."""
    source: Node = node.inputs[index]
    other: Node
    earlier: cython.Py_ssize_t
    for earlier in range(index):
        other = node.inputs[earlier]
        if other is source:
            return earlier
        if source.op is _scalar_op and other.op is _scalar_op and _is_one(source, other):
            return earlier
    return index


@cython.cfunc
def _is_one(number: Node, other: Node) -> cython.bint:
    """True if `collect` would make one value of two numbers."""
    return number.dtype is other.dtype and repr(number.params) == repr(other.params)


@cython.cfunc
@cython.exceptval(check=False)
def _join_axes(loop: cython.pointer(Loop)) -> cython.void:
    """Drop axes of size 1 and join neighbours that are one stride for everybody, as `kernel_encoder.collapse` does."""
    regions: cython.Py_ssize_t = loop.count + 1
    first_reduced: cython.Py_ssize_t = loop.rank - loop.reduced
    reduced: cython.Py_ssize_t = 0
    left: cython.Py_ssize_t = 0
    axis: cython.Py_ssize_t
    index: cython.Py_ssize_t
    for axis in range(loop.rank):
        size: cython.longlong = loop.dims[axis]
        if size == 1:
            continue
        joined: cython.bint = left > 0 and (reduced > 0) == (axis >= first_reduced)
        for index in range(regions):
            if not joined:
                break
            joined = (
                loop.steps[index * MOST_RANK + left - 1]
                == loop.steps[index * MOST_RANK + axis] * size
            )
        if joined:
            left -= 1
            size *= loop.dims[left]
        elif axis >= first_reduced:
            reduced += 1
        loop.dims[left] = size
        for index in range(regions):
            loop.steps[index * MOST_RANK + left] = loop.steps[index * MOST_RANK + axis]
        left += 1
    if left == 0 or (loop.reduced > 0 and reduced == 0):
        loop.dims[left] = 1
        for index in range(regions):
            loop.steps[index * MOST_RANK + left] = 0
        left += 1
        reduced = 1 if loop.reduced > 0 else 0
    loop.rank = left
    loop.reduced = reduced


@cython.cfunc
def _find(node: Node, loop: cython.pointer(Loop), region: tuple | None = None) -> LoopCall:
    """The call of a node, or of a copy of its value to a region with these strides, from the table or new there."""
    code: cython.longlong = node.op.code if region is None else _COPY
    classes: cython.longlong = 0
    index: cython.Py_ssize_t
    axis: cython.Py_ssize_t
    for index in range(loop.count + 1):
        for axis in range(loop.rank):
            step: cython.longlong = loop.steps[index * MOST_RANK + axis]
            classes = 3 * classes + (step if 0 <= step <= 1 else 2)
    loop.key[0] = code | node.dtype.code << 16 | loop.count << 24 | loop.rank << 32
    loop.key[0] |= cython.cast(cython.longlong, loop.reduced) << 40
    loop.key[KEY_WORDS - 1] = classes
    h: cython.ulonglong = 0
    for index in range(KEY_WORDS):
        h = mix(h, loop.key[index])
    slot: cython.Py_ssize_t = (h >> 16) % CALL_SLOTS
    call: LoopCall = _calls[slot]
    if call is None or memcmp(call.key, loop.key, cython.sizeof(loop.key)) != 0:
        call = _calls[slot] = _look_up(node, loop, region)
    return call


@cython.cfunc
def _look_up(node: Node, loop: cython.pointer(Loop), region: tuple | None) -> LoopCall:
    """A call that is not at hand: one of those that are known, or a new one."""
    key = PyBytes_FromStringAndSize(
        cython.cast(cython.p_char, loop.key), KEY_WORDS * cython.sizeof(cython.longlong)
    )
    found = _known.get(key)
    if found is None:
        if len(_known) >= MOST_CALLS:
            _known.clear()
        found = _known[key] = _new_call(node, loop, region)
    return found


@cython.cfunc
def _new_call(node: Node, loop: cython.pointer(Loop), region: tuple | None) -> LoopCall:
    """The kernel that the lowering finds for a program of this node alone, or for a copy of its value."""
    call: LoopCall = LoopCall()
    memcpy(call.key, loop.key, cython.sizeof(loop.key))
    if region is not None:
        _take_copy(call, node, region)
        return call
    program: Program = program_of(node)
    kernel: Kernel = program.kernels[0]
    try:
        if kernel.prepared is not None and isinstance(kernel.prepared, KernelEncoder):
            _take(call, node, kernel.prepared, loop)
    finally:
        program.release()
    return call


@cython.cfunc
def _take(
    call: LoopCall, node: Node, encoder: KernelEncoder, loop: cython.pointer(Loop)
) -> cython.void:
    """Let a call have the kernel of a builder, where that is over the same loops."""
    index: cython.Py_ssize_t
    number: cython.Py_ssize_t
    count: cython.Py_ssize_t = len(encoder.sources)
    if encoder.rank != loop.rank or encoder.reduced != loop.reduced or encoder.spec.checked:
        return
    call.count = count
    for index in range(count):
        found: cython.Py_ssize_t = -1
        for number in range(len(node.inputs)):
            if found < 0 and encoder.sources[index].root is node.inputs[number]:
                found = number
        if found < 0:
            return
        call.operands[index] = cython.cast(cython.int, found)
    call.spec = encoder.spec
    call.body_count = encoder.body_count


@cython.cfunc
def _take_copy(call: LoopCall, part: Node, region: tuple) -> cython.void:
    """Let a call have the kernel that copies a value to its region."""
    call.spec = find_spec(
        copy_loop(default_device(), part.dtype, part.shape, strides_of(part), region)
    )
    call.count = call.body_count = 1
    call.operands[0] = 0


@cython.cfunc
def _run(
    operands: tuple, call: LoopCall, loop: cython.pointer(Loop), target: uintptr_t
) -> cython.void:
    """Call a kernel on these operands and the memory that its result goes to."""
    frame: CallFrame
    rank: cython.Py_ssize_t = loop.rank
    used: cython.Py_ssize_t = rank
    index: cython.Py_ssize_t
    number: cython.Py_ssize_t
    code: Code = call.spec.code
    memcpy(frame.arguments, loop.dims, rank * cython.sizeof(int64_t))
    for index in range(call.count + 1):
        number = call.operands[index] if index < call.count else loop.count
        memcpy(
            frame.arguments + used, loop.steps + number * MOST_RANK, rank * cython.sizeof(int64_t)
        )
        used += rank
        if index < call.count:
            frame.pointers[index] = _address_of(
                operands[number], cython.cast(cython.p_char, frame.numbers + 2 * index)
            )
    frame.pointers[call.count] = cython.cast(cython.p_void, target)
    work: KernelWork = _work_of(call, loop)
    if loop.reduced < rank:
        call_kernel_now(code, frame.pointers, call.count + 1, frame.arguments, used, work)
        return
    blocks: OwnedMemory = None
    frame.pointers[call.count + 1] = frame.blocks
    if work.units > MOST_BLOCKS:
        blocks = default_device().memory.allocate(work.units * BLOCK_RESULT + 64)
        frame.pointers[call.count + 1] = cython.cast(cython.p_void, blocks.address)
    call_kernel_now(code, frame.pointers, call.count + 2, frame.arguments, used, work)
    code.call_final(frame.pointers, frame.arguments, 1)


@cython.cfunc
@cython.exceptval(check=False)
def _work_of(call: LoopCall, loop: cython.pointer(Loop)) -> KernelWork:
    """The units of a loop, the least of them that a thread takes, and about what all of them take, as `lower_loops`
    says it."""
    tuning: Threads = default_device().tuning.threads
    total: cython.longlong = 1
    axis: cython.Py_ssize_t
    work: KernelWork
    for axis in range(loop.rank):
        total *= loop.dims[axis]
    work.cost_ns = total * (call.body_count + 1) // 8 + 1
    if loop.reduced == loop.rank:
        work.units = (total + _block - 1) // _block
        work.grain_size = tuning.chunk_blocks
        return work
    work.units = loop.dims[0]
    work.grain_size = tuning.chunk_elements
    if loop.rank > 1:
        work.grain_size = max(1, tuning.chunk_elements * work.units // max(total, 1))
    return work


@cython.cfunc
@cython.inline
@cython.exceptval(check=True)
def _address_of(source: Node, cell: cython.p_char) -> cython.p_void:
    """The address of an operand's elements; a number is written to a cell first."""
    if source.op is not _scalar_op:
        return address_of(source)
    store_number(source.params, source.dtype, cell)
    return cython.cast(cython.p_void, cell)
