# cython: language_level=3
"""The interpreter, tier 0 of execution: a flush that has never come before runs node by node, in recording order.

It takes pending nodes and runs those that live ones need, oldest first; each operand is held until its last reader has
run. An elementwise node or a reduction is one call of a kernel from a table (`loop_calls`), a view refers to its
operand's memory as a member of a batch does to its batch's, and any other node is lowered by itself (`single_node`).
Nothing is fused for a graph that may never come again. The driver loops over the nodes, and continues with the whole
pipeline at a node that cannot be run here.

`Interpretation.gain_ns` says whether that pays, by the costs in `tier_choice`.
"""

import cython
from cython.cimports.libc.stdint import uintptr_t
from cython.cimports.weft.engine.capi.growable_array import drop, empty, put
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.devices.api import Memory, default_device
from cython.cimports.weft.engine.devices.tuning import Tiering
from cython.cimports.weft.engine.ir.batch import batch_of
from cython.cimports.weft.engine.ir.memory import OwnedMemory, describe
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node, error_of, is_live, set_buffer
from cython.cimports.weft.engine.ir.primitive import (
    INTO_BASE,
    RESHAPE,
    SELECT,
    SLICE,
    SLICES,
    STRIDED,
    Primitive,
)
from cython.cimports.weft.engine.pipeline.batching.membership import in_ragged, sources
from cython.cimports.weft.engine.pipeline.fingerprint import NEW, SOON
from cython.cimports.weft.engine.pipeline.program_ir import row_major, strides_of
from cython.cimports.weft.engine.runtime.commit import leave
from cython.cimports.weft.engine.runtime.scalar_cells import store_number
from cython.cimports.weft.engine.runtime.tier_choice import begin, spared_ns, weigh

from weft._build.compiled import require
from weft.engine.ir.primitive import (
    CONTRACT,
    ELEMENTWISE,
    REDUCE,
    REGION,
    SCALAR_OP,
    SCATTER,
    VIEW,
)
from weft.engine.pipeline.memory_plan import is_private
from weft.engine.pipeline.simplify.gather_matmul import commuted

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)
_reduce = cython.declare(cython.int, REDUCE)
_view = cython.declare(cython.int, VIEW)
_contract = cython.declare(cython.int, CONTRACT)
_region = cython.declare(cython.int, REGION)
_scatter = cython.declare(cython.int, SCATTER)
_scalar_op = cython.declare(Primitive, SCALAR_OP)


def pays(pending: list) -> bool:
    """True if nodes can run one by one, in less time than to be scheduled and then run."""
    flush: Interpretation = Interpretation(pending)
    flush.stop()
    return flush.can_run and flush.gain_ns(NEW, 0) > 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def may_be_called(node: Node) -> cython.bint:
    """True if a node is of a kind that needs no program."""
    kind: cython.int = node.op.kind
    return kind in (_elementwise, _reduce, _view)


@cython.cfunc
@cython.inline
def _is_exchanged(node: Node) -> cython.bint:
    """True if a product, or a scatter of one, would be commuted with a gather, which changes bits of its gradients."""
    adds_rows: cython.bint = node.op.form == SLICES and node.op.sums == INTO_BASE
    if node.op.kind != _contract and not adds_rows:
        return False
    return commuted(node) is not None


@cython.final
@cython.cclass
class Interpretation:
    """The nodes of one flush, the next one to run last. Each operand is held (`Node.external_refs`) once for each
    reader; `operands` lists them behind each other: which, with the lowest bit set where it runs in this flush too,
    and then how many the node has. A member of a batch reads the batch. Where the flush cannot run (`can_run`), there
    are failed values among what it reads, or a batch that may fail, whose members read alone what has been freed."""

    def __cinit__(self, pending: list):
        self.operands = empty()
        self.order = []
        self.rows = []
        self.runs = self.can_run = True
        tuning: Tiering = default_device().tuning.tiering
        begin(cython.address(self.estimate), tuning)
        self.most_misses = tuning.unknown_nodes + len(pending) // tuning.nodes_of_an_unknown_one
        position: cython.Py_ssize_t
        node: Node
        nodes: list = pending
        for node in pending:
            if node.quotient is not None:
                self.batched = True
                nodes = in_order(pending)
                break
        for position in range(len(nodes) - 1, -1, -1):
            node = nodes[position]
            if node.external_refs > 0 and node.state == PENDING:
                self.order.append(node)
                self.hold(node)
                if node.quotient is not None:
                    self.rows.append(node)
                if node.may_fail and self.batched:
                    self.can_run = False
                weigh(cython.address(self.estimate), node, tuning)
                if not may_be_called(node) and _is_exchanged(node):
                    self.runs = False

    def __dealloc__(self):
        drop(cython.address(self.operands))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def hold(self, node: Node) -> cython.int:
        """Hold the operands of a node."""
        source: Node
        operands: tuple = sources(node)
        for source in operands:
            source.external_refs += 1
            if error_of(source) is not None:
                self.can_run = False
            address = cython.cast(cython.longlong, cython.cast(cython.p_void, source))
            put(cython.address(self.operands), address | (source.state == PENDING))
        return put(cython.address(self.operands), len(operands))

    @cython.cfunc
    @cython.exceptval(check=False)
    def gain_ns(self, comes: cython.int, lost_ns: cython.double) -> cython.double:
        """The time that interpreting spares: scheduling, or a part of it where the flush comes back soon, less what it
        takes longer than the known program, this time and, if the flush has come before, so far."""
        if comes == NEW:
            return self.estimate.schedule_ns + self.estimate.known_ns - self.estimate.first_ns
        price: cython.double = self.estimate.schedule_ns
        if comes == SOON:
            price *= default_device().tuning.tiering.soon_part
        return price - spared_ns(cython.address(self.estimate)) - lost_ns

    @cython.cfunc
    @cython.inline
    def operand(self, number: cython.Py_ssize_t) -> Node:
        """An operand of the next node."""
        address: cython.longlong = self.operands.words[self.operands.count - 2 - number]
        return cython.cast(Node, cython.cast(cython.p_void, address & -2))

    @cython.cfunc
    @cython.exceptval(check=False)
    def release(self) -> cython.bint:
        """Let go of the operands of the next node; whether all of them are there."""
        number: cython.Py_ssize_t
        node: Node
        ready: cython.bint = True
        for number in range(self.operands.words[self.operands.count - 1]):
            node = self.operand(number)
            node.external_refs -= 1
            ready = ready and node.state == DONE
        return ready

    @cython.cfunc
    @cython.exceptval(check=False)
    def free(self) -> cython.void:
        """The next node has run: free the values of this flush that it was the last to read."""
        number: cython.Py_ssize_t
        node: Node
        for number in range(self.operands.words[self.operands.count - 1]):
            node = self.operand(number)
            ran_here: cython.bint = self.operands.words[self.operands.count - 2 - number] & 1
            if ran_here and node.external_refs == 0:
                set_buffer(node, None)

    @cython.cfunc
    @cython.exceptval(check=False)
    def go_on(self) -> cython.void:
        """Leave the next node behind."""
        self.operands.count -= self.operands.words[self.operands.count - 1] + 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def keep_batches(self) -> cython.void:
        """Let batches that have been freed, and whose rows are held behind this flush, have their memory again: who
        reads all of these reads one value."""
        node: Node
        batch: Node
        for node in self.rows:
            batch = node.quotient
            if node.external_refs > 0 and batch is not None and batch.buffer is None:
                set_buffer(batch, node.buffer)

    @cython.cfunc
    @cython.exceptval(check=False)
    def stop(self) -> cython.void:
        """Let go of the operands of all nodes that have not run."""
        while self.operands.count > 0:
            self.release()
            self.go_on()


@cython.cfunc
def in_order(pending: list) -> list:
    """The nodes that live ones among some need, each behind what it reads: batches were recorded behind their members,
    and behind what reads these."""
    order: list = []
    found: set = set()
    node: Node
    source: Node
    stack: list = [node for node in pending if is_live(node)]
    stack.reverse()
    while stack:
        node = stack[len(stack) - 1]
        if node.state != PENDING or node in found:
            stack.pop()
            continue
        ready: cython.bint = True
        for source in sources(node):
            if source.state == PENDING and source not in found:
                stack.append(source)
                ready = False
        if ready:
            stack.pop()
            found.add(node)
            order.append(node)
    return order


@cython.cfunc
def take_row(node: Node) -> cython.bint:
    """Let a member of a batch refer to its rows of the batch."""
    batch: Node = node.quotient
    if batch.buffer is None:
        return False
    strides: tuple = strides_of(batch)
    start: cython.longlong = cython.cast(cython.longlong, node.qrow) * strides[batch_of(batch).axis]
    offset: cython.longlong = batch.offset + start * node.dtype.itemsize
    commit(node, batch.buffer, offset, strides if in_ragged(node) else strides[1:])
    return True


@cython.cfunc
def take_view(node: Node) -> cython.bint:
    """Let a view refer to its operand's memory; False if it must be copied."""
    if node.op.kind != _view:
        return False
    source: Node = node.inputs[0]
    if source.op is _scalar_op:
        return take_number(node, source)
    if source.buffer is None:
        return False
    if source.strides is None and node.op.form == RESHAPE:
        commit(node, source.buffer, source.offset, None)
        return True
    if node.op.form == SLICE or node.op.form == SELECT:
        return take_part(node, source)
    if source.strides is not None and node.op.form == STRIDED:
        return False
    found, offset = node.op.strides(node.params, source.shape, strides_of(source), 0)
    if found is None:
        return False
    start: cython.longlong = cython.cast(cython.longlong, offset) * node.dtype.itemsize
    commit(node, source.buffer, source.offset + start, found)
    return True


@cython.cfunc
def take_part(node: Node, source: Node) -> cython.bint:
    """Let a slice along an axis, or one place of it, refer to its operand's memory."""
    axis: cython.Py_ssize_t = node.params[0]
    strides: tuple = strides_of(source)
    step: cython.longlong = strides[axis]
    start: cython.longlong = step * cython.cast(cython.longlong, node.params[1])
    if node.op.form == SELECT:
        strides = strides[:axis] + strides[axis + 1 :]
    elif node.params[3] != 1:
        stride: object = step * cython.cast(cython.longlong, node.params[3])
        strides = (*strides[:axis], stride, *strides[axis + 1 :])
    commit(node, source.buffer, source.offset + start * node.dtype.itemsize, strides)
    return True


@cython.cfunc
def take_number(node: Node, number: Node) -> cython.bint:
    """Let a view of a number refer to a cell that holds the number; False if strides cannot express it."""
    shape: tuple = number.shape
    strides, offset = node.op.strides(node.params, shape, row_major(shape), 0)
    if strides is None or offset != 0:
        return False
    memory: Memory = default_device().memory
    cells: OwnedMemory = memory.allocate_cells(1)
    address: uintptr_t = memory.cell(cells, 0, number.dtype.itemsize)
    store_number(number.params, number.dtype, cython.cast(cython.p_char, address))
    commit(node, cells, address - cells.address, strides)
    return True


@cython.cfunc
def commit(
    node: Node, buffer: OwnedMemory, offset: cython.longlong, strides: tuple | None
) -> cython.void:
    """Give a node its value: these bytes of a buffer."""
    set_buffer(node, buffer)
    node.offset = offset
    if buffer.listed:
        describe(buffer, node.code, node.offset_in_code, node.shape, node.dtype)
    dense: cython.bint = strides is None or equal(strides, row_major(node.shape))
    node.strides = None if dense else strides
    node.batch_seen = True
    leave(node, False)


@cython.cfunc
def may_overwrite(node: Node) -> cython.bint:
    """True if a node writes to a part of its first operand, and may do so in place because nothing else sees that
    operand."""
    if node.op.kind != _region and node.op.kind != _scatter:
        return False
    return len(node.inputs) > 0 and is_private(node.inputs[0])
