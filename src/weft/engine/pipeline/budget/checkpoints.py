# cython: language_level=3
"""Checkpoints: the nodes of values that a program has not handed over because of the budget, and of those that it has
and that can be computed again.

A node that is DEFERRED has run with its program, or needed not to, and stays recorded: what holds it are saves of
derivatives, and a backward pass that needs its value runs it again. A CHECKPOINT has its value, and keeps its inputs.
Where a program does not fit, `evict` makes all checkpoints recorded again, and less is kept from then on. The slots of
both come from `defer`.
"""

import cython
from cython.cimports.weft.engine.ir import deferral
from cython.cimports.weft.engine.ir.deferral import CHECKPOINT, DEFERRED
from cython.cimports.weft.engine.ir.node import (
    DONE,
    PENDING,
    Node,
    defer_no_more,
    deferral_of,
    is_live,
    rare_facts,
    set_buffer,
)
from cython.cimports.weft.engine.ir.residuals import drop_inputs, mark_dead_candidate
from cython.cimports.weft.engine.ir.tape import Tape, finish, link, unlink
from cython.cimports.weft.engine.pipeline.batching.membership import pending_among, sources
from cython.cimports.weft.engine.pipeline.program_ir import MemRef, Program

from weft._build.compiled import require
from weft.engine.ir.residuals import repeatable_tapes

require(__name__, cython.compiled)

any_deferred = False
_checkpoints = cython.declare(Tape, Tape())  # lists them without owning them
repeatable_tapes.append(_checkpoints)


@cython.final
@cython.cclass
class Recorded:
    """The nodes of a program that stay recorded, and its checkpoints."""

    def __cinit__(self, staying: set, checkpoints: set):
        self.staying, self.checkpoints = staying, checkpoints

    @cython.cfunc
    def stays(self, node: Node) -> cython.bint:
        """True if a node stays as it is."""
        return node in self.staying

    @cython.cfunc
    def is_checkpoint(self, node: Node) -> cython.bint:
        """True if a node keeps its inputs beside its value."""
        return node in self.checkpoints


@cython.cfunc
def recorded_of(program: Program, layout: object, pending: list) -> Recorded:
    """The nodes of a program that has run which stay recorded: those of deferred values and checkpoints, and those that
    these are computed from, up to values that are handed over. None where nothing is deferred."""
    saved: set = set() if layout is None else layout.saved
    if not saved and not any_deferred:
        return None
    node: Node
    memref: MemRef
    number: cython.Py_ssize_t
    checkpoints: set = set()
    handed_over: set = set()
    stack: list = [node for node in pending if node.external_refs > 0 and deferral_of(node)]
    for number in range(len(program.numbered)):
        node = program.numbered[number]
        memref = program.memrefs[number]
        if memref.value.slot in saved:
            stack.append(node)
            if memref.value.slot not in layout.deferred:
                checkpoints.add(node)
        elif memref.value.kept and memref.value.slot >= 0:
            handed_over.add(node)
    found: set = set()
    while stack:
        node = stack.pop()
        if node.state != PENDING or node in found or node in handed_over:
            continue
        found.add(node)
        stack.extend(sources(node))
        if node.quotient is not None:  # which it may have to leave, where another member fails
            stack.extend(node.inputs or ())
    return Recorded(found - checkpoints, checkpoints)


@cython.cfunc
@cython.exceptval(check=False)
def note_staying(node: Node) -> cython.void:
    """A node stays recorded: what holds it does not make it run."""
    global any_deferred
    node.batch_seen = True
    rare_facts(node).deferred = DEFERRED
    any_deferred = True


@cython.cfunc
def note_checkpoint(node: Node) -> cython.void:
    """A node, off its tape, has a value and its inputs."""
    global any_deferred
    rare_facts(node).deferred = CHECKPOINT
    any_deferred = True
    link(_checkpoints, node)


@cython.cfunc
@cython.exceptval(check=False)
def has_deferred(nodes: list) -> cython.bint:
    """True if some nodes stay recorded."""
    node: Node
    for node in nodes:
        if deferral_of(node):
            return True
    return False


@cython.cfunc
def keep_sources(tape: Tape) -> cython.void:
    """Keep, until the run is over, the values that nodes read which it does not compute: deferred ones are computed of
    them later, and checkpoints can be."""
    node: Node
    source: Node
    pending: list = tape.pending()
    needed: set = pending_among([node for node in pending if is_live(node)])
    later: set = _saved(pending)
    for node in later:
        if node in needed or node.inputs is None:
            continue
        for source in node.inputs:
            if source is not None and source.state == DONE:
                source.external_refs += 1
                tape.held.append(source)


@cython.cfunc
def _saved(pending: list) -> set:
    """The checkpoints and the pending nodes that something holds, and the pending nodes that these are computed
    from."""
    node: Node
    checkpoints: set = set()
    stack: list = [node for node in pending if node.external_refs > 0]
    for node in _checkpoints.pending():
        if node.external_refs > 0:
            checkpoints.add(node)
            stack.extend(node.inputs or ())
            stack.extend(sources(node))
    return pending_among(stack) | checkpoints


@cython.cfunc
def let_go(tape: Tape) -> cython.void:
    """Take nodes off the tape after a run that no save holds any more, and nothing that one holds is computed from; let
    checkpoints that have been read forget their inputs."""
    node: Node
    pending: list = tape.pending()
    needed: set = _saved(pending)
    for node in pending:
        if deferral_of(node) and node not in needed:
            node.state = DONE
            finish(node)
            _forget(node)
    for node in _checkpoints.pending():
        if node.external_refs == 0:
            unlink(node)
            _forget(node)
            mark_dead_candidate(node)


@cython.cfunc
def _forget(node: Node) -> cython.void:
    """Let a node be like any other that has run."""
    defer_no_more(node)
    drop_inputs(node)


@cython.cfunc
@cython.exceptval(-1, check=False)
def evict(tape: Tape) -> cython.bint:
    """Make all checkpoints recorded again, on a tape; whether there were any. From now on fewer are kept."""
    node: Node
    found: cython.bint = False
    for node in _checkpoints.pending():
        found = True
        unlink(node)
        node.state = PENDING
        set_buffer(node, None)
        node.offset, node.strides = 0, None
        note_staying(node)
        link(tape, node)
    deferral.shortage += found
    return found


def checkpoint_count() -> int:
    """The number of values that could be given up and computed again."""
    return int(_checkpoints.count)


def shortage_count() -> int:
    """The number of times that a program did not fit beside the checkpoints of others."""
    return int(deferral.shortage)
