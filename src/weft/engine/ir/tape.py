# cython: language_level=3
"""Tapes (Wengert lists): the pending nodes of each thread, and its mode.

A node joins the calling thread's tape when it is recorded, and leaves it when it is done, has failed, or turns out to
be a gradient record alone.
"""

from _thread import _local as thread_local  # `threading.local` without the rest of threading
from _thread import allocate_lock, start_new_thread
from contextvars import copy_context

import cython
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.weft.engine.capi.call_site import thread_id
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.node import PENDING, Node
from cython.cimports.weft.engine.ir.prefetch import FAR, prefetch_node
from cython.cimports.weft.engine.ir.tape import current_tape, link, unlink

from weft._build.compiled import require
from weft.engine.ir.primitive import VIEW

require(__name__, cython.compiled)


@cython.final
@cython.cclass
class intact:  # noqa: N801 - a context, as no_grad is
    """A context in which what is recorded stays as it is until somebody reads a value: no budget makes it run. For
    those who look at what has been recorded, and for writes that go together."""

    mode: Mode

    def __enter__(self):
        self.mode = current_tape().mode
        self.mode.intact += 1

    def __exit__(self, kind, error, traceback):
        self.mode.intact -= 1


@cython.cclass
class Tape:
    """The pending nodes of one thread, in order of creation. `left` of them stood there after the last flush;
    `arrived_bytes` stand for values from outside since then, which pending nodes may hold. `written` are the storages
    that go back to a former value where a write fails, `held` what is kept while a failed program runs again. What was
    recorded before one of `refusals` did not fit into memory, and runs by itself."""

    def __cinit__(self):
        self.nodes = cython.NULL
        self.filled = 0
        self.room = 0
        self.count = 0
        self.pending_bytes = 0
        self.left = 0
        self.arrived_bytes = 0
        self.mode = Mode()
        self.running = None
        self.written = []
        self.held = []
        self.refusals = []

    def __dealloc__(self):
        """Nodes that are still pending when the interpreter ends must not look for their tape."""
        position: cython.Py_ssize_t
        for position in range(self.filled):
            if self.nodes[position] != cython.NULL:
                cython.cast(Node, self.nodes[position]).tape = cython.NULL
        free(self.nodes)

    def pending(self):
        """The pending nodes, oldest first."""
        return nodes_from(self, 0)

    def since(self, sequence: cython.longlong):
        """The pending nodes created after a sequence number, oldest first."""
        position: cython.Py_ssize_t = self.filled
        while position > 0:
            if position > FAR and self.nodes[position - FAR] != cython.NULL:
                prefetch_node(self.nodes[position - FAR])
            pointer: cython.p_void = self.nodes[position - 1]
            if pointer != cython.NULL and cython.cast(Node, pointer).seq <= sequence:
                break
            position -= 1
        return nodes_from(self, position)


@cython.cfunc
def nodes_from(tape: Tape, position: cython.Py_ssize_t) -> list:
    """The nodes of a tape from a position on."""
    place: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    for place in range(position, tape.filled):
        count += tape.nodes[place] != cython.NULL
    nodes: list = [None] * count  # making it may run the collector, and nodes may leave the tape
    count = 0
    for place in range(position, tape.filled):
        if count == len(nodes):
            break
        if place + FAR < tape.filled and tape.nodes[place + FAR] != cython.NULL:
            prefetch_node(tape.nodes[place + FAR])
        pointer: cython.p_void = tape.nodes[place]
        if pointer != cython.NULL:
            nodes[count] = cython.cast(Node, pointer)
            count += 1
    del nodes[count:]
    return nodes


@cython.cfunc
@cython.exceptval(-1, check=False)
def make_room(tape: Tape) -> cython.int:
    """Close the gaps of a tape where many have left it, or else let it grow. Errors: MemoryError."""
    if tape.count < tape.filled // 2:
        close_gaps(tape)
        return 0
    room: cython.Py_ssize_t = 2 * tape.room + 256
    grown = cython.cast(cython.pp_void, realloc(tape.nodes, room * cython.sizeof(cython.p_void)))
    if grown == cython.NULL:
        raise MemoryError
    tape.nodes, tape.room = grown, room
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def close_gaps(tape: Tape) -> cython.void:
    """Move the nodes of a tape together."""
    position: cython.Py_ssize_t
    filled: cython.Py_ssize_t = 0
    for position in range(tape.filled):
        pointer: cython.p_void = tape.nodes[position]
        if pointer != cython.NULL:
            tape.nodes[filled] = pointer
            cython.cast(Node, pointer).position = filled
            filled += 1
    tape.filled = filled


_local = thread_local()
tapes: list = []
_free_tapes: list = []
_current = Tape()
_current_id = 0
_sequence = 0
view_kind = VIEW
ambient = 0
packer = None


class _TapeOwner:
    """Gives a thread's tape back when the thread ends; its pending nodes stay readable from other threads."""

    def __init__(self):
        self.tape = _free_tapes.pop() if _free_tapes else Tape()
        self.tape.mode = Mode()
        tapes.append(self.tape)

    def __del__(self):
        if tapes is not None and self.tape in tapes:
            tapes.remove(self.tape)
            _free_tapes.append(self.tape)


def other_tapes(tape: Tape) -> list:
    """The tapes of other threads that run, and those that threads which have ended have left work on."""
    if len(tapes) == 1 and tapes[0] is tape and not _free_tapes:
        return []  # as a rule, and a flush should cost no more than it must
    found: list = [other for other in list(tapes) if other is not tape]
    other: Tape
    for other in list(_free_tapes):
        if other.count > 0:
            found.append(other)
    return found


@cython.cfunc
def tape_of_thread() -> Tape:
    """The calling thread's tape, where the last one to ask was another thread."""
    global _current, _current_id
    owner = getattr(_local, "owner", None)
    if owner is None:
        owner = _local.owner = _TapeOwner()
    _current = owner.tape
    _current_id = thread_id()
    return _current


def tape():
    """The calling thread's tape."""
    return current_tape()


def on_fresh_stack(function, *arguments):
    """Call a function on the stack of another thread, as if on this one, which waits: its tape, its context. Recursion
    that is deeper than one stack allows goes on there."""
    current_tape()
    owner, context = _local.owner, copy_context()
    outcome: list = []

    def run():
        _local.owner = owner
        try:
            outcome.append((context.run(function, *arguments), None))
        except BaseException as error:  # raised again where it is waited for
            outcome.append((None, error))
        finally:
            done.release()

    done = allocate_lock()
    done.acquire()
    start_new_thread(run, ())
    interrupted = _wait(done)
    result, error = outcome.pop()
    if interrupted is not None or error is not None:
        raise interrupted or error
    return result


def _wait(done):
    """Wait for a lock to be released; what interrupts the waiting is given back, to be raised afterwards."""
    interrupted = None
    while True:
        try:
            done.acquire()
            return interrupted
        except BaseException as error:
            interrupted = error


def watch_records(new_packer, change: cython.int):
    """Open (+1) or close (-1) a context in which the recorder asks about hooks on saves, forward or inference mode."""
    global ambient, packer
    packer = new_packer
    ambient += change


@cython.ccall
@cython.exceptval(check=False)
def finish(node: Node) -> cython.void:
    """Take a node that is done, failed or only a gradient record off its tape."""
    if node.tape != cython.NULL:
        unlink(node)


def rejoin(node: Node, beside: Node = None):
    """Put a pending node that left its tape with its batch back at the end of a tape: of the tape of `beside`, or else
    of the calling thread's."""
    if node.tape == cython.NULL:
        away: cython.bint = beside is None or beside.tape == cython.NULL
        link(current_tape() if away else cython.cast(Tape, beside.tape), node)
    return tape_of(node)


def tape_of(node: Node):
    """The tape that a pending node is on, or None."""
    return None if node.tape == cython.NULL else cython.cast(Tape, node.tape)


def leave_alone(sequence: cython.longlong):
    """Keep the pending nodes created since then out of batches: they are one chain for each value already."""
    node: Node
    for node in current_tape().since(sequence):
        node.batch_seen = True


def turns(entries):
    """The entries of a loop of library code whose turns record the same operations: for each operation, those of all
    turns have one library site, as if they had been recorded by one line (`engine.capi.call_site`)."""
    mode: Mode = current_tape().mode
    before: cython.uint = mode.scope.count
    for entry in entries:
        mode.scope.count = before
        yield entry


def last_sequence():
    """The sequence number of the newest node."""
    return _sequence


def is_record_only(node: Node):
    """True if a node is a gradient record without a value of its own to compute."""
    return node.state == PENDING and node.tape == cython.NULL
