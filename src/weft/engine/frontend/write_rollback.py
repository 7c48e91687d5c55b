# cython: language_level=3
"""The undo log of in-place writes: if a write fails at run time (an index out of range), the storage reverts to its
last good value.

Whether an index is in range may only be known when its kernel runs. Until then a storage remembers the values that it
had before each write that may fail. When one has failed, and its error has been raised, the storage has the last good
value again: as if the failed write, and the writes after it, had never been called. Writes that cannot fail are not
logged, and nothing costs memory before a write fails.
"""

import weakref

import cython
from cython.cimports.weft.engine.frontend.tensor import Storage, Tensor, UndoEntry, replace_node
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.node import DONE, FAILED, PENDING, Node, error_of
from cython.cimports.weft.engine.ir.primitive import scalar_op
from cython.cimports.weft.engine.ir.tape import Tape, current_tape

from weft._build.compiled import require

require(__name__, cython.compiled)

_failed: list = []  # formers of storages that show a failed value


@cython.cfunc
def log_write(storage: Storage, old: Node, base: Tensor, edge: object) -> cython.void:
    """A storage has got a new value: remember the old one where the new one may fail."""
    undo: UndoEntry = storage.undo
    if not storage.node.may_fail or storage.node.state == DONE:
        discard(storage)
        return
    if undo is None:
        undo = UndoEntry()
        undo.storage = cython.cast(cython.p_void, storage)
        undo.entries = []
        storage.undo = undo
        current_tape().written.append(undo)
    if not old.may_fail or old.state == DONE:
        undo.entries.clear()
        undo.kept = wrap(old, None) if old.state == DONE else None
    undo.entries.append((old, None if base is None else weakref.ref(base), edge))


@cython.cfunc
def discard(storage: Storage) -> cython.void:
    """The present value of a storage will not fail."""
    if storage.undo is not None:
        storage.undo.storage = cython.NULL
        storage.undo = None


def retain_undo_entries(tape: Tape):
    """A program has failed and is about to run again: what storages may have to go back to is kept this time.
    Returns whether there is anything that was not kept before."""
    found: bool = False
    undo: UndoEntry
    for undo in tape.written:
        if undo.storage != cython.NULL:
            for node, _base, _edge in undo.entries:
                found = retain(tape, node) or found
    return found


def retain(tape: Tape, node: Node):
    """Keep a pending value until `commit_writes`. Returns whether it was not kept before."""
    if node.state != PENDING or node in tape.held:
        return False
    node.external_refs += 1
    tape.held.append(node)
    return True


def commit_writes(tape: Tape):
    """After a run: storages whose writes have run forget what was before; those that failed wait for `put_back`."""
    global _failed
    undo: UndoEntry
    storage: Storage
    waiting: list = []
    for undo in tape.written:
        if undo.storage == cython.NULL:
            continue
        storage = cython.cast(Storage, undo.storage)
        if storage.node.state == PENDING:
            waiting.append(undo)
        elif storage.node.state == FAILED and _last_good(undo):
            _failed.append(undo)
        else:
            discard(storage)
    tape.written = waiting
    release_held(tape, 0)


def release_held(tape: Tape, first: cython.Py_ssize_t):
    """Hold no longer what a tape has held since there were so many."""
    node: Node
    for node in tape.held[first:]:
        node.external_refs -= 1
    del tape.held[first:]


@cython.cfunc
@cython.exceptval(check=False)
def is_there(node: Node) -> cython.bint:
    """True if a value has been computed and not been written over, or can be computed."""
    if node.state == PENDING or node.op is scalar_op:
        return True
    return node.state == DONE and (node.buffer is not None or node.numel == 0)


@cython.cfunc
def _last_good(undo: UndoEntry) -> cython.bint:
    """Leave only the last value that has not failed among a storage's former ones; whether there is one."""
    node: Node
    while undo.entries:
        entry = undo.entries.pop()
        node = entry[0]
        if is_there(node):
            undo.entries = [entry]
            undo.kept = wrap(node, None)
            return True
    return False


def rollback_after(error):
    """An error is about to be raised: storages that it has reached show their former values again."""
    global _failed
    undo: UndoEntry
    storage: Storage
    left: list = []
    for undo in _failed:
        if undo.storage == cython.NULL:
            continue
        storage = cython.cast(Storage, undo.storage)
        if storage.node.state == FAILED and error_of(storage.node) is error:
            _restore(storage, undo)
        elif storage.node.state != DONE:
            left.append(undo)
    _failed = left


@cython.cfunc
def _restore(storage: Storage, undo: UndoEntry) -> cython.void:
    """Show the value before the failed write, and lead gradients where they led then."""
    node, base, edge = undo.entries[0]
    replace_node(storage, node)
    storage.version += 1  # so that views look at their base's history again
    handle: Tensor = None if base is None else base()
    if handle is not None:
        handle.edge = edge
        handle.version_seen = storage.version
    discard(storage)
