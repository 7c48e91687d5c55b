# cython: language_level=3
"""What storages go back to where a write into them fails.

Whether an index is in range may only be known when its kernel runs. Until then a storage remembers the values that it
showed before each write that may fail. When one has failed, and its error has been raised, the storage shows the
last value that did not: as if the failed write, and what was written behind it, had never been called. Nothing is
remembered of writes that cannot fail, and nothing costs memory before one does.
"""

import weakref

import cython
from cython.cimports.weft.engine.frontend.tensor import Former, Storage, Tensor, replace_node
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.node import DONE, FAILED, PENDING, Node
from cython.cimports.weft.engine.ir.primitive import scalar_op
from cython.cimports.weft.engine.ir.tape import Tape, current_tape

from weft._build.compiled import require

require(__name__, cython.compiled)

_failed: list = []  # formers of storages that show a failed value


@cython.cfunc
def note_former(storage: Storage, old: Node, base: Tensor, edge: object) -> cython.void:
    """A storage has got a new value: remember the old one where the new one may fail."""
    former: Former = storage.former
    if not storage.node.may_fail or storage.node.state == DONE:
        forget(storage)
        return
    if former is None:
        former = Former()
        former.storage = cython.cast(cython.p_void, storage)
        former.entries = []
        storage.former = former
        current_tape().written.append(former)
    if not old.may_fail or old.state == DONE:
        former.entries.clear()
        former.kept = wrap(old, None) if old.state == DONE else None
    former.entries.append((old, None if base is None else weakref.ref(base), edge))


@cython.cfunc
def forget(storage: Storage) -> cython.void:
    """The present value of a storage will not fail."""
    if storage.former is not None:
        storage.former.storage = cython.NULL
        storage.former = None


def hold_formers(tape: Tape):
    """A program has failed and is about to run again: what storages may have to go back to is kept this time.
    Returns whether there is anything that was not kept before."""
    found: bool = False
    former: Former
    for former in tape.written:
        if former.storage != cython.NULL:
            for node, _base, _edge in former.entries:
                found = hold(tape, node) or found
    return found


def hold(tape: Tape, node: Node):
    """Keep a pending value until `settle`. Returns whether it was not kept before."""
    if node.state != PENDING or node in tape.held:
        return False
    node.external_refs += 1
    tape.held.append(node)
    return True


def settle(tape: Tape):
    """After a run: storages whose writes have run forget what was before; those that failed wait for `put_back`."""
    global _failed
    former: Former
    storage: Storage
    waiting: list = []
    for former in tape.written:
        if former.storage == cython.NULL:
            continue
        storage = cython.cast(Storage, former.storage)
        if storage.node.state == PENDING:
            waiting.append(former)
        elif storage.node.state == FAILED and _last_good(former):
            _failed.append(former)
        else:
            forget(storage)
    tape.written = waiting
    for node in tape.held:
        node.external_refs -= 1
    tape.held = []


@cython.cfunc
def _last_good(former: Former) -> cython.bint:
    """Leave only the last value that has not failed among a storage's former ones; whether there is one."""
    node: Node
    while former.entries:
        entry = former.entries.pop()
        node = entry[0]
        there: cython.bint = node.state == PENDING or node.buffer is not None or node.numel == 0
        if (node.state != FAILED and there) or node.op is scalar_op:
            former.entries = [entry]
            former.kept = wrap(node, None)
            return True
    return False


def put_back_after(error):
    """An error is about to be raised: storages that it has reached show their former values again."""
    global _failed
    former: Former
    storage: Storage
    left: list = []
    for former in _failed:
        if former.storage == cython.NULL:
            continue
        storage = cython.cast(Storage, former.storage)
        if storage.node.state == FAILED and storage.node.error is error:
            _restore(storage, former)
        elif storage.node.state != DONE:
            left.append(former)
    _failed = left


@cython.cfunc
def _restore(storage: Storage, former: Former) -> cython.void:
    """Show the value before the failed write, and lead gradients where they led then."""
    node, base, edge = former.entries[0]
    replace_node(storage, node)
    storage.version += 1  # so that views look at their base's history again
    handle: Tensor = None if base is None else base()
    if handle is not None:
        handle.edge = edge
        handle.seen = storage.version
    forget(storage)
