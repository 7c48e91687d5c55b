# cython: language_level=3
"""Residuals: the values that nodes keep for their derivatives, and when they are released.

A node with gradient edges references its declared residuals until a backward, a hook or the node's death releases
them. A value without references is dropped when nothing pending reads it.
"""

import cython
from cython.cimports.weft.engine.ir.deferred_free import bury, end_burial
from cython.cimports.weft.engine.ir.node import (
    DONE,
    RESULT_SHIFT,
    Node,
    result_of,
    save,
    set_buffer,
    unsave,
)
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.ir.residual_mask import is_saved
from cython.cimports.weft.engine.ir.tape import Tape

from weft._build.compiled import require
from weft.engine.ir.primitive import COMPOSITE
from weft.engine.ir.tape import last_sequence, tapes

require(__name__, cython.compiled)

_dead_candidates: list = []
repeatable_tapes: list = []  # list nodes that have run, and may run once more: what they read stays


@cython.ccall
@cython.exceptval(check=False)
def retain_residuals(node: Node, edges: tuple) -> cython.void:
    """Retain the residuals that the derivatives of these edges need: declared inputs, and the node's own value.
    `residual_mask` has a bit for each input kept, and RESULT_BIT."""
    if node.has_residuals or node.inputs is None:
        return
    op: Primitive = node.op
    mask: cython.longlong = 0
    index: cython.Py_ssize_t
    last: cython.Py_ssize_t = op.mask_count - 1
    for index in range(len(edges)):
        if edges[index] is not None:
            mask |= op.masks[index if index < last else last]
    retain_masked(node, mask)


@cython.cfunc
@cython.exceptval(check=False)
def retain_masked(node: Node, mask: cython.longlong) -> cython.void:
    """Retain the residuals that a mask names."""
    index: cython.Py_ssize_t
    node.residual_mask = mask
    node.has_residuals = True
    if mask == 0:
        return
    for index in range(len(node.inputs)):
        if is_saved(mask, index):
            save(node.inputs[index])
    if mask >> RESULT_SHIFT & 1 and node.op.kind != COMPOSITE:
        save(node)


@cython.cfunc
def own_residuals(node: Node) -> cython.longlong:
    """The saves that a node keeps itself: not those that a user's hook has taken over."""
    if node.rare is None or node.rare.observers is None:
        return node.residual_mask
    return node.residual_mask & ~node.rare.observers.packed_mask


@cython.ccall
@cython.exceptval(check=False)
def release_residuals(node: Node) -> cython.void:
    """Give up what `retain_residuals` kept."""
    if not node.has_residuals:
        return
    node.has_residuals = False
    mask: cython.longlong = own_residuals(node)
    index: cython.Py_ssize_t
    if node.inputs is not None:
        for index in range(len(node.inputs)):
            if is_saved(mask, index):
                unsave(node.inputs[index])
    if node.op.kind == COMPOSITE:
        result: Node = result_of(node)
        if result is not None:
            unsave(result)
    elif mask >> RESULT_SHIFT & 1:
        unsave(node)


def release_residual(node: Node, index: cython.Py_ssize_t):
    """Stop keeping one save (an input's number or RESULT_BIT): `observers` has what a hook made of it."""
    if not node.has_residuals or not own_residuals(node) >> index & 1:
        return
    if index < RESULT_SHIFT:
        unsave(node.inputs[index])
    elif node.op.kind == COMPOSITE:
        unsave(result_of(node))
        node.rare.result = None
    else:
        unsave(node)
    node.rare.observers.packed_mask |= cython.cast(cython.longlong, 1) << index


@cython.ccall
def drop_inputs(node: Node) -> cython.void:
    """After execution: forget the value inputs, except the declared saves of a node that still holds them."""
    if node.inputs is None:
        return
    if not node.has_residuals:
        bury(node.inputs)
        node.inputs = None
        end_burial()
        return
    mask: cython.longlong = own_residuals(node)
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
def mark_dead_candidate(node: Node) -> cython.void:
    """A walk or a handle has let go of a node that other records hold as a gradient edge: its value may go too, once
    what is pending has read it."""
    if (
        node.buffer is not None and node.state == DONE and _dead_candidates is not None
    ):  # as it is at exit
        _dead_candidates.append(node)


def free_dead_candidates():
    """Give up the values that nobody holds any more and nothing pending reads; called when a tape's work is done. What
    held the last reference to other such values makes them candidates in turn, layer by layer: as many rounds as there
    are layers, none inside another."""
    global _dead_candidates
    seen: cython.longlong = -1
    read: set = set()
    waiting: list = []
    node: Node
    while _dead_candidates:
        if seen != last_sequence():  # what dies may call a user's function, which records
            seen, read = last_sequence(), _read_by_pending()
        candidates: list = _dead_candidates
        _dead_candidates = []
        for node in candidates:
            if node.external_refs == 0:
                if id(node) in read:
                    waiting.append(node)
                else:
                    set_buffer(node, None)
        node = candidates = None  # the last references, to what is a candidate in the next round
    _dead_candidates = waiting


@cython.cfunc
def _read_by_pending() -> set:
    """The ids of all nodes that pending work reads."""
    read: set = set()
    node: Node
    for tape in (*tapes, *repeatable_tapes):
        for node in cython.cast(Tape, tape).pending():
            for source in node.inputs or ():
                read.add(id(source))
    return read
