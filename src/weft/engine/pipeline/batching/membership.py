# cython: language_level=3
"""Membership in batches: nodes become rows of a quotient, and leave it.

Members keep their inputs and edges: only `quotient` and `qrow` are written, and their residuals move to the quotient.
A member is one row of a quotient with a leading dimension, or as many rows as it is high of a ragged one
(`in_ragged`).
"""

import cython
from cython.cimports.weft.engine.ir.batch import Batch, batch_of, new_batch
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node
from cython.cimports.weft.engine.ir.prefetch import prefetch_inputs
from cython.cimports.weft.engine.ir.residuals import release_residuals, retain_residuals
from cython.cimports.weft.engine.ir.tape import Tape
from cython.cimports.weft.engine.pipeline.batching.batch_key import goes_on
from cython.cimports.weft.engine.pipeline.batching.membership import row_axis

from weft._build.compiled import require
from weft.engine.ir.tape import rejoin

require(__name__, cython.compiled)


@cython.cfunc
def adopt(quotient: Node, members: list, flags: tuple) -> cython.void:
    """Make nodes members of a quotient, each behind the one before; it takes over what their derivatives need."""
    first: Node = members[0]
    ragged: cython.bint = len(quotient.shape) == len(first.shape)
    axis: cython.Py_ssize_t = row_axis(quotient.shape) if ragged else 0
    quotient.info = new_batch(flags, quotient.shape[axis], axis)
    if first.edges is not None:
        retain_residuals(quotient, first.edges)
    position: cython.Py_ssize_t
    node: Node
    row: cython.longlong = 0
    for position in range(len(members)):
        prefetch_inputs(members, position)
        node = members[position]
        become_row(node, quotient, row)
        row += cython.cast(cython.longlong, node.shape[axis]) if ragged else 1


@cython.cfunc
def height_in(quotient: Node, member: Node) -> cython.longlong:
    """The number of rows that a member has in its quotient."""
    if len(quotient.shape) != len(member.shape):
        return 1
    return member.shape[batch_of(quotient).axis]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def become_row(node: Node, quotient: Node, row: cython.longlong) -> cython.void:
    """Make a node a row of a quotient (its first one), which holds what its derivative needs."""
    node.quotient = quotient
    node.qrow = row
    batch: Batch = batch_of(quotient)
    batch.members += not node.released
    release_residuals(node)


def rows_along(node: Node):
    """The dimension that the rows of a batch are along; 0 of other nodes."""
    return batch_of(node).axis if isinstance(node.info, Batch) else 0


def batched_operands(node: Node):
    """Of a quotient: whether each operand has a row for each example. None of other nodes."""
    return batch_of(node).flags if isinstance(node.info, Batch) else None


def ungroup(nodes: list):
    """Take pending members that live nodes need out of their batches, to run alone: where a batch fails, each example
    is to answer for itself. Returns whether there were any."""
    found: cython.bint = False
    stack: list = [node for node in nodes if cython.cast(Node, node).external_refs > 0]
    met: set = set()
    node: Node
    while stack:
        node = stack.pop()
        if node.state != PENDING or node in met:
            continue
        met.add(node)
        if node.inputs is not None:
            stack.extend(node.inputs)
        if node.quotient is not None and node.quotient.state == PENDING:
            found = True
            _leave(node)
    return found


@cython.cfunc
def sources(node: Node) -> tuple:
    """The nodes that a node is computed from: its quotient, if it is a member, or else its inputs."""
    if node.quotient is not None:
        return (node.quotient,)
    return () if node.inputs is None else node.inputs


@cython.cfunc
def pending_among(stack: list) -> set:
    """The pending nodes among some, which are taken out, and those that they are computed from."""
    needed: set = set()
    node: Node
    while stack:
        node = stack.pop()
        if node is not None and node.state == PENDING and node not in needed:
            needed.add(node)
            stack.extend(sources(node))
    return needed


@cython.cfunc
def _sequence(node: Node) -> cython.longlong:
    return node.seq


def needed_by(wanted: list, tape: Tape):
    """The pending nodes that values are computed of, oldest first. Those that the rest of what somebody holds reads are
    held until the run is over, and so are values that are there, so that this rest can be computed after it."""
    node: Node
    source: Node
    needed: set = pending_among(wanted)
    held: list = [node for node in tape.pending() if node.external_refs > 0]
    for node in pending_among(held) - needed:
        for source in sources(node):
            if source in needed or source.state == DONE:
                source.external_refs += 1
                tape.held.append(source)
    return sorted(needed, key=lambda node: _sequence(node))


def needed_elsewhere(pending: list, tape: Tape):
    """The pending nodes that a tape's own read on other tapes, with the batches that these are part of: what has not
    run there reads them afterwards."""
    home: cython.p_void = cython.cast(cython.p_void, tape)
    met: set = set()
    found: list = []
    stack: list = [(node, False) for node in pending]
    node: Node
    source: Node
    while stack:
        node, elsewhere = stack.pop()
        for source in sources(node):
            if source.state != PENDING or source.tape == home or source in met:
                continue
            below: cython.bint = elsewhere or source.tape != cython.NULL
            met.add(source)
            if below:
                found.append(source)
            stack.append((source, below))
    return found


@cython.cfunc
def _leave(node: Node) -> cython.void:
    """Make a member a node of its own again."""
    quotient: Node = node.quotient
    node.quotient = None
    node.qrow = -1
    if node.edges is not None and not node.released:
        retain_residuals(node, node.edges)
    release_residuals(quotient)
    rejoin(node, quotient)
    while goes_on(node.inputs[0]):
        node = node.inputs[0]
        node.qrow = -1
        rejoin(node, quotient)
