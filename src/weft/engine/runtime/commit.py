# cython: language_level=3
"""Commit: nodes get their values and errors when a program has run, or part of it has failed.

It takes a program, its memory plan and how far it got. Nodes that are needed keep their values, failed nodes get their
errors. Flushes, kernels, launches, nodes and failures are counted here, too.
"""

from typing import Any

import cython
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.devices.trace import put_owner, tracing_memory
from cython.cimports.weft.engine.ir.memory import OwnedMemory, describe
from cython.cimports.weft.engine.ir.node import (
    DONE,
    PENDING,
    Node,
    defer_no_more,
    is_live,
    rare_facts,
    set_buffer,
)
from cython.cimports.weft.engine.ir.residuals import drop_inputs
from cython.cimports.weft.engine.ir.tape import finish
from cython.cimports.weft.engine.pipeline.budget.checkpoints import (
    Recorded,
    note_checkpoint,
    note_staying,
)
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    MemRef,
    Program,
    maker,
    region,
    row_major,
)

from weft._build.compiled import require
from weft.engine.frontend.node_factory import mark_failed
from weft.engine.frontend.write_rollback import rollback_after
from weft.errors import WeftError

require(__name__, cython.compiled)

Commit = tuple[Any, int, int, Any]


@cython.final
@cython.cclass
class FlushCounters:
    """Counts of flushes, kernels, launches, nodes and failures in this process, read as a mapping."""

    def keys(self) -> tuple[str, ...]:
        return ("flushes", "kernels", "launches", "nodes", "failures")

    def __getitem__(self, name: str) -> int:
        return {
            "flushes": self.flushes,
            "kernels": self.kernels,
            "launches": self.launches,
            "nodes": self.nodes,
            "failures": self.failures,
        }[name]


_tally = cython.declare(FlushCounters, FlushCounters())
counters = _tally
_latest_failure: tuple[int, WeftError] | None = None


@cython.ccall
def note_failure(node: Node, error: WeftError) -> None:
    """A node has failed."""
    global _latest_failure
    mark_failed(node, error)
    _latest_failure = (node.seq, error)


def raise_failure(sequence: int) -> None:
    """Raise the error of the node of a number where it has just failed: in eager mode, at the call."""
    global _latest_failure
    failure, _latest_failure = _latest_failure, None
    if failure is not None and failure[0] == sequence:
        rollback_after(failure[1])
        raise failure[1].again()


@cython.cfunc
def decide(
    program: Program,
    failed: dict,
    finished: cython.Py_ssize_t,
    gone: list,
    recorded: Recorded | None,
) -> list[Commit]:
    """The commits of the nodes that have run: (node, slot, byte offset in the slot, strides) for each that keeps its
    value; the others, but for those that stay recorded, are appended to `gone`."""
    node: Node
    memref: MemRef
    root: Node
    complete: cython.bint = finished >= len(program.kernels)
    commits: list[Commit] = []
    number: cython.Py_ssize_t
    for number in range(len(program.numbered)):
        node = program.numbered[number]
        if node.state != PENDING:
            continue
        memref = program.memrefs[number]
        if program.remat_of is not None and not complete:
            memref = _remaining(program, memref)
        root = memref.root
        if failed and fail(node, memref, failed):
            continue
        if root.state != DONE and not _ran(memref, finished):
            continue
        if recorded is not None and recorded.stays(node):
            continue
        if memref.value.slot >= 0 and (
            memref.value.kept
            or (root.state == DONE and is_live(node))
            or (not complete and memref.value.last_use >= finished)
        ):
            dense: cython.bint = equal(memref.strides, row_major(node.shape))
            offset: cython.longlong = memref.offset * root.dtype.itemsize
            commits.append((node, memref.value.slot, offset, None if dense else memref.strides))
        else:
            gone.append(node)
    return commits


@cython.cfunc
def _remaining(program: Program, memref: MemRef) -> MemRef:
    """The memory reference at which the rest of the program finds a value: its clone's, if it is computed again."""
    clone: MemRef = program.remat_of.get(memref.root)
    return memref if clone is None else region(clone, memref.offset, memref.strides, memref.shape)


@cython.cfunc
def fail(node: Node, memref: MemRef, failed: dict) -> cython.bint:
    """Fail a node whose memory is part of a failed value; True if it failed. The other rows of a batch are valid."""
    from weft.engine.runtime.error_propagation import FailedRows, failure_of

    failure = failed.get(memref.root)
    if node is memref.root and isinstance(failure, FailedRows):
        rare_facts(node).error = failure
        _tally.failures += 1
        return False
    error = None if failure is None else failure_of(node, memref, failure)
    if error is None:
        return False
    note_failure(node, error)
    _tally.failures += 1
    drop_inputs(node)  # an input may lead back to this node, by way of a leaf's gradient
    return True


@cython.cfunc
def _ran(memref: MemRef, finished: cython.Py_ssize_t) -> cython.bint:
    """True if the kernel of a value has run. A reshape that products have read through has no kernel, and stays
    pending."""
    kernel: Kernel = maker(memref)
    return kernel is not None and kernel.position < finished


@cython.cfunc
def commit(commits: list[Commit], gone: list, run: Any, recorded: Recorded | None) -> cython.void:
    """Hand buffers to the nodes that keep them and take what has run off the tape, but for what stays recorded."""
    node: Node
    buffer: OwnedMemory
    slot: cython.Py_ssize_t
    buffers: list[Any] = run.buffers
    addresses: list[Any] = run.addresses
    for node, slot, offset, strides in commits:
        buffer = buffers[slot]
        set_buffer(node, buffer)
        node.offset = addresses[slot] - buffer.address + offset
        node.strides = strides
        if buffer.listed:
            describe(buffer, node.code, node.offset_in_code, node.shape, node.dtype)
        leave(node, recorded is not None and recorded.is_checkpoint(node))
    for node in gone:
        leave(node, False)
    if recorded is not None:
        for node in recorded.staying:
            note_staying(node)


@cython.cfunc
@cython.inline
def leave(node: Node, checkpoint: cython.bint) -> cython.void:
    """Take a node that has run off the tape."""
    node.state = DONE
    finish(node)
    if tracing_memory and node.buffer is not None:
        put_owner(node, node.buffer.address)
    if checkpoint:
        note_checkpoint(node)
    else:
        defer_no_more(node)
        drop_inputs(node)
