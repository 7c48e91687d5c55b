# cython: language_level=3
"""What nodes keep for their derivatives, and when it goes.

In come nodes with gradient edges; their declared saves count as live until a walk, a hook or the node's death gives
them up. Values that nobody holds any more go when nothing pending reads them.
"""

import cython
from cython.cimports.weft.engine.ir.deferred_free import bury, end_burial
from cython.cimports.weft.engine.ir.node import DONE, RESULT_SHIFT, Node
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.ir.residual_mask import is_saved
from cython.cimports.weft.engine.ir.tape import Tape

from weft._build.compiled import require
from weft.engine.ir.primitive import COMPOSITE
from weft.engine.ir.tape import tapes

require(__name__, cython.compiled)

_idle: list = []


@cython.ccall
@cython.exceptval(check=False)
def acquire_saves(node: Node, edges: tuple) -> cython.void:
    """Keep alive what the derivative needs for the edges that there are: declared inputs, and the node's own value.
    `saved` has a bit for each input kept, and RESULT_BIT."""
    if node.holds or node.inputs is None:
        return
    op: Primitive = node.op
    mask: cython.longlong = 0
    index: cython.Py_ssize_t
    last: cython.Py_ssize_t = op.mask_count - 1
    for index in range(len(edges)):
        if edges[index] is not None:
            mask |= op.masks[index if index < last else last]
    node.saved = mask
    node.holds = True
    if mask == 0:
        return
    for index in range(len(node.inputs)):
        if is_saved(mask, index):
            cython.cast(Node, node.inputs[index]).live += 1
    if mask >> RESULT_SHIFT & 1 and op.kind != COMPOSITE:
        node.live += 1


@cython.cfunc
def held(node: Node) -> cython.longlong:
    """The saves that a node keeps itself: not those that a user's hook has taken over."""
    if node.observers is None:
        return node.saved
    return node.saved & ~node.observers.packed_mask


@cython.ccall
@cython.exceptval(check=False)
def release_saves(node: Node) -> cython.void:
    """Give up what `acquire_saves` kept."""
    if not node.holds:
        return
    node.holds = False
    mask: cython.longlong = held(node)
    index: cython.Py_ssize_t
    if node.inputs is not None:
        for index in range(len(node.inputs)):
            if is_saved(mask, index):
                cython.cast(Node, node.inputs[index]).live -= 1
    if node.op.kind == COMPOSITE:
        if node.result is not None:
            node.result.live -= 1
    elif mask >> RESULT_SHIFT & 1:
        node.live -= 1


def give_up_save(node: Node, index: cython.Py_ssize_t):
    """Stop keeping one save (an input's number or RESULT_BIT): `observers` has what a hook made of it."""
    if not node.holds or not held(node) >> index & 1:
        return
    if index < RESULT_SHIFT:
        cython.cast(Node, node.inputs[index]).live -= 1
    elif node.op.kind == COMPOSITE:
        node.result.live -= 1
        node.result = None
    else:
        node.live -= 1
    node.observers.packed_mask |= cython.cast(cython.longlong, 1) << index


@cython.ccall
def drop_inputs(node: Node) -> cython.void:
    """After execution: forget the value inputs, except the declared saves of a node that still holds them."""
    if node.inputs is None:
        return
    if not node.holds:
        bury(node.inputs)
        node.inputs = None
        end_burial()
        return
    mask: cython.longlong = held(node)
    if mask == 0 or mask == cython.cast(cython.longlong, 1) << RESULT_SHIFT:
        node.inputs = ()
        return
    kept: list = []
    index: cython.Py_ssize_t
    for index in range(len(node.inputs)):
        kept.append(node.inputs[index] if is_saved(mask, index) else None)
    node.inputs = tuple(kept)


@cython.cfunc
@cython.exceptval(check=False)
def note_idle(node: Node) -> cython.void:
    """A walk or a handle has let go of a node that other records hold as a gradient edge: its value may go too, once
    what is pending has read it."""
    if node.buffer is not None and node.state == DONE and _idle is not None:  # as it is at exit
        _idle.append(node)


def free_idle():
    """Give up the values that nobody holds any more and nothing pending reads; called when a tape's work is done."""
    global _idle
    if not _idle:
        return
    read: set = set()
    waiting: list = []
    node: Node
    source: Node
    for tape in tapes:
        for node in cython.cast(Tape, tape).pending():
            for source in node.inputs or ():
                read.add(id(source))
    for node in _idle:
        if node.live == 0:
            if id(node) in read:
                waiting.append(node)
            else:
                node.buffer = None
    _idle = waiting
