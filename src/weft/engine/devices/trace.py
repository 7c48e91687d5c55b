# cython: language_level=3
"""The trace: what the engine did and when, as events in memory that profilers read.

An event is a kind, a begin and an end in nanoseconds, a thread and two words, which for each kind are:

    flush       what asked for it; -
    stage       the name of a pass; -
    compile     (names of kernels, whether in the background); -
    program     its `Labels`; the number of the first node that it ran
    launch      its index in the program that runs on the same thread meanwhile; -
    piece       what a worker did of a launch, by its index; the thread that runs the program
    nodes       the `Labels` of nodes that the interpreter ran; the first of them, and how many in the lower half
    walk        -; -
    collective  the name; bytes
    allocate, free    an address; bytes
    own         a label: the node whose value an address holds; the address
    range       what the user called it, and more; -
    module      its name; - (`first` and last node recorded in it are in the payload)

Nothing is recorded, and nothing but the flag `tracing` is read, while no `Recording` is open. Events lie in chunks,
each of which leads to the next one: a recording keeps the chunk that it began in, and what no recording keeps is freed.
There are at most `MOST_EVENTS`; what comes then is dropped and counted. Whoever holds no GIL writes into events that
it has reserved before. A forked child records nothing.
"""

import os
from typing import NamedTuple

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.pythread import PyThread_get_thread_ident
from cython.cimports.cpython.ref import Py_XDECREF, Py_XINCREF
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import calloc, free, realloc
from cython.cimports.weft.engine.capi.clock import now
from cython.cimports.weft.engine.capi.growable_array import Array, drop, empty
from cython.cimports.weft.engine.capi.growable_array import put as put_word
from cython.cimports.weft.engine.devices.trace import (
    ALLOCATE,
    CHUNK_EVENTS,
    EMPTY,
    FREE,
    LAUNCH,
    MOST_LABELS,
    NODES,
    OWN,
    PIECE,
    TIMED_ELEMENTS,
    TIMED_NODES,
    LabelWords,
    TraceEvent,
)
from cython.cimports.weft.engine.ir.batch import Batch
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import Primitive

from weft._build.compiled import require

require(__name__, cython.compiled)

KINDS = (
    "empty", "flush", "stage", "compile", "program", "launch", "piece", "nodes", "walk", "collective", "allocate",
    "free", "own", "range", "module",
)  # fmt: skip
MOST_EVENTS = 1 << 22

tracing = tracing_operands = tracing_memory = False
_recordings = cython.declare(cython.int, 0)
_memory_recordings = cython.declare(cython.int, 0)
_operand_recordings = cython.declare(cython.int, 0)
_most = cython.declare(cython.longlong, MOST_EVENTS)
_kept = cython.declare(cython.longlong, 0)  # events that chunks have room for
_dropped = cython.declare(cython.longlong, 0)
_forks = cython.declare(cython.longlong, 0)  # that this process has come out of
_last = cython.declare("Chunk", None)
_limited = cython.declare(list, [])  # the open recordings that end when they are full


class LabelledOperand(NamedTuple):
    """An operand of a labelled node. `inside`: the same launch computes it."""

    shape: tuple
    dtype: DType
    inside: bool


class Label(NamedTuple):
    """A node that has run, as far as it is kept. `position` is that of its kernel in its program, `members` how many
    nodes it stands for as a batch, `stored` whether its value leaves its kernel: it lies in `slot`, shared with others,
    until the kernel at `last_use` has read it (-1: it is kept)."""

    op: Primitive
    code: object
    offset_in_code: int
    shape: tuple
    dtype: DType
    members: int
    position: int
    stored: bool
    seq: int
    operands: tuple
    slot: int
    last_use: int


@cython.final
@cython.no_gc
@cython.cclass
class Labels:
    """The labels of nodes, and of a program which launches compute them; `rows` reads them."""

    def __cinit__(self):
        self.operands = empty()
        self.launches = empty()

    def __dealloc__(self):
        index: cython.Py_ssize_t
        label: cython.pointer(LabelWords)
        for index in range(self.count):
            label = cython.address(self.labels[index])
            Py_XDECREF(label.op)
            Py_XDECREF(label.code)
            Py_XDECREF(label.shape)
            Py_XDECREF(label.dtype)
        for index in range(self.operands.count):
            Py_XDECREF(cython.cast(cython.pointer(PyObject), self.operands.words[index] & -2))
        free(self.labels)
        drop(cython.address(self.operands))
        drop(cython.address(self.launches))

    @cython.cfunc
    @cython.exceptval(check=False)
    def make_room(self, count: cython.Py_ssize_t) -> cython.void:
        """Have room for so many labels, where there is memory."""
        grown: cython.p_void
        if count > self.room:
            grown = realloc(self.labels, count * cython.sizeof(LabelWords))
            if grown != cython.NULL:
                self.labels = cython.cast(cython.pointer(LabelWords), grown)
                self.room = count

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add(
        self, node: Node, inputs: tuple, position: cython.int, stored: cython.bint
    ) -> cython.int:
        """Append the label of a node; its operands are appended behind it."""
        if self.count == self.room:
            self.make_room(2 * self.room + 8)
            if self.count == self.room:
                raise MemoryError
        label: cython.pointer(LabelWords) = cython.address(self.labels[self.count])
        label.op = cython.cast(cython.pointer(PyObject), node.op)
        label.code = cython.cast(cython.pointer(PyObject), node.code)
        label.shape = cython.cast(cython.pointer(PyObject), node.shape)
        label.dtype = cython.cast(cython.pointer(PyObject), node.dtype)
        Py_XINCREF(label.op)
        Py_XINCREF(label.code)
        Py_XINCREF(label.shape)
        Py_XINCREF(label.dtype)
        label.offset_in_code = node.offset_in_code
        label.position = 2 * position + stored
        label.operands = 0
        label.slot = label.last_use = -1
        label.members = 1
        if isinstance(node.info, Batch):
            label.members = cython.cast(Batch, node.info).count
        label.seq = node.seq
        self.count += 1
        source: Node
        for source in inputs:
            self.add_operand(source.shape, source.dtype, False)
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def note_slot(self, slot: cython.int, last_use: cython.int) -> cython.void:
        """Say where the value of the last label lies, and how long."""
        self.labels[self.count - 1].slot = slot
        self.labels[self.count - 1].last_use = last_use

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add_operand(self, shape: object, dtype: object, inside: cython.bint) -> cython.int:
        """Append an operand of the last label."""
        words: cython.pointer(PyObject) = cython.cast(cython.pointer(PyObject), shape)
        Py_XINCREF(words)
        put_word(cython.address(self.operands), cython.cast(cython.longlong, words))
        words = cython.cast(cython.pointer(PyObject), dtype)
        Py_XINCREF(words)
        put_word(cython.address(self.operands), cython.cast(cython.longlong, words) | inside)
        self.labels[self.count - 1].operands += 1
        return 0

    def rows(self) -> list:
        """The labels, as a list of `Label`."""
        if self.rows_read is None or len(self.rows_read) < self.count:
            self.rows_read = self._read()
        return self.rows_read

    @cython.cfunc
    def _read(self) -> list:
        found: list = []
        index: cython.Py_ssize_t
        at: cython.Py_ssize_t = 0
        label: cython.pointer(LabelWords)
        for index in range(self.count):
            label = cython.address(self.labels[index])
            operands: list = []
            for _ in range(label.operands):
                operands.append(
                    LabelledOperand(
                        cython.cast(object, cython.cast(cython.p_void, self.operands.words[at])),
                        cython.cast(
                            object, cython.cast(cython.p_void, self.operands.words[at + 1] & -2)
                        ),
                        self.operands.words[at + 1] & 1 != 0,
                    )
                )
                at += 2
            found.append(
                Label(
                    cython.cast(object, label.op),
                    cython.cast(object, label.code),
                    label.offset_in_code,
                    cython.cast(object, label.shape),
                    cython.cast(object, label.dtype),
                    label.members,
                    label.position >> 1,
                    label.position & 1 != 0,
                    label.seq,
                    tuple(operands),
                    label.slot,
                    label.last_use,
                )
            )
        return found

    def launch_positions(self) -> list:
        """For each launch of a program (the position of its kernel, whether it is a second function)."""
        words = self.launches.words
        return [(words[index] // 2, words[index] % 2 != 0) for index in range(self.launches.count)]

    def nbytes(self) -> int:
        """The bytes that labels take."""
        return (
            self.room * cython.sizeof(LabelWords)
            + 8 * (self.operands.room + self.launches.room)
            + cython.sizeof(Array)
        )


@cython.final
@cython.no_gc
@cython.cclass
class Chunk:
    """Events behind each other, which never move."""

    def __cinit__(self, room: cython.Py_ssize_t):
        global _kept
        self.events = cython.cast(
            cython.pointer(TraceEvent), calloc(room, cython.sizeof(TraceEvent))
        )
        if self.events == cython.NULL:
            raise MemoryError
        self.room = room
        self.payloads = []
        self.labels = Labels()
        _kept += room

    def __dealloc__(self):
        global _kept
        following: Chunk = self.following
        self.following = None
        _kept -= self.room
        free(self.events)
        while following is not None and not _is_shared(following):  # not one within the other
            following = _take_following(following)


@cython.cfunc
def _is_shared(chunk: Chunk) -> cython.bint:
    """True if others than the caller's variable hold a chunk."""
    pointer: cython.pointer(PyObject) = cython.cast(cython.pointer(PyObject), chunk)
    return pointer.ob_refcnt > 1


@cython.cfunc
def _take_following(chunk: Chunk) -> Chunk:
    """The chunk behind another one, which is cut off it."""
    following: Chunk = chunk.following
    chunk.following = None
    return following


@cython.cfunc
@cython.exceptval(check=False)
def reserve(count: cython.Py_ssize_t) -> cython.pointer(TraceEvent):
    """So many events behind each other, all EMPTY, in the chunk that `last_chunk` says: it lives while somebody holds
    it. NULL where there is no room for them: they are dropped."""
    global _last, _dropped
    chunk: Chunk = _last
    if chunk is None or not tracing:
        return cython.NULL
    if chunk.count + count > chunk.room:
        if _limited:
            _end_full(chunk.before + chunk.count)
            if not tracing:
                return cython.NULL
        room: cython.Py_ssize_t = max(CHUNK_EVENTS, count)
        if _kept + room > _most:
            _dropped += count
            return cython.NULL
        try:
            chunk.following = Chunk(room)
        except MemoryError:
            _dropped += count
            return cython.NULL
        chunk.following.before = chunk.before + chunk.count
        chunk = _last = chunk.following
    chunk.count += count
    return chunk.events + (chunk.count - count)


@cython.cfunc
def last_chunk() -> Chunk:
    """The chunk that events are in that have just been reserved."""
    return _last


@cython.cfunc
@cython.exceptval(check=False)
def put(
    kind: cython.int, begin_ns: int64_t, end_ns: int64_t, first: int64_t, second: int64_t
) -> cython.void:
    """Record one event."""
    event: cython.pointer(TraceEvent) = reserve(1)
    if event == cython.NULL:
        return
    event.begin_ns, event.end_ns, event.first, event.second = begin_ns, end_ns, first, second
    event.thread = cython.cast(cython.ulong, PyThread_get_thread_ident())
    event.kind = kind


@cython.cfunc
@cython.exceptval(check=False)
def put_payload(
    kind: cython.int, begin_ns: int64_t, end_ns: int64_t, payload: object, second: int64_t
) -> cython.void:
    """Record an event with an object."""
    event: cython.pointer(TraceEvent) = reserve(1)
    if event == cython.NULL:
        return
    event.begin_ns, event.end_ns, event.second = begin_ns, end_ns, second
    event.first = len(_last.payloads)
    try:
        _last.payloads.append(payload)
    except MemoryError:
        return
    event.thread = cython.cast(cython.ulong, PyThread_get_thread_ident())
    event.kind = kind


@cython.cfunc
@cython.exceptval(check=False)
def put_owner(node: Node, address: cython.size_t) -> cython.void:
    """Record whose value the memory at an address holds from now on."""
    event: cython.pointer(TraceEvent) = reserve(1)
    if event == cython.NULL:
        return
    event.begin_ns = event.end_ns = now()
    event.first = _last.labels.count
    event.second = address
    try:
        _last.labels.add(node, (), 0, True)
    except MemoryError:
        return
    event.thread = cython.cast(cython.ulong, PyThread_get_thread_ident())
    event.kind = OWN


@cython.final
@cython.cclass
class NodeTimes:
    """The nodes of a flush that is interpreted, at most so many: some are timed together, large ones and programs by
    themselves."""

    def __cinit__(self, most: cython.Py_ssize_t):
        self.labels = Labels()
        self.labels.make_room(min(most, MOST_LABELS))
        self.begin_ns = now()

    @cython.cfunc
    @cython.exceptval(check=False)
    def add(self, node: Node, inputs: tuple) -> cython.void:
        """Note that a node has run."""
        if self.labels.count >= MOST_LABELS:
            self.labels.omitted += 1
            return
        try:
            self.labels.add(node, inputs if tracing_operands else (), 0, True)
        except MemoryError:
            return
        self.elements += node.numel
        if (
            self.alone
            or self.labels.count - self.first >= TIMED_NODES
            or self.elements >= TIMED_ELEMENTS
        ):
            self.close()

    @cython.cfunc
    @cython.exceptval(check=False)
    def close(self) -> cython.void:
        """Record the nodes that have run since this was called last."""
        at: int64_t = now()
        count: cython.Py_ssize_t = self.labels.count - self.first
        if count > 0:
            put_payload(NODES, self.begin_ns, at, self.labels, self.first << 32 | count)
        self.first, self.begin_ns = self.labels.count, at
        self.elements, self.alone = 0, False


# -- for Python ------------------------------------------------------------------------------------------------------


def is_on() -> bool:
    """True if anybody records."""
    return tracing


def clock() -> int:
    """The present time in the nanoseconds that events have."""
    return now()


def note(kind: str, begin_ns: int, payload: object, second: int = 0) -> int:
    """Record an event with an object, which ends now; returns the time."""
    at: int64_t = now()
    if tracing:
        put_payload(KINDS.index(kind), begin_ns, at, payload, second)
    return at


@cython.final
@cython.cclass
class Recording:
    """The events from its making on; `close` returns them. `memory`: those of memory, too; `operands`: labels of nodes
    that are interpreted have them; `most`: about so many events, behind which it ends by itself (0: until `close`)."""

    def __cinit__(self, memory: bool = False, operands: bool = False, most: cython.longlong = 0):
        global _last, _recordings, _operand_recordings, _memory_recordings
        if _last is None:
            _last = Chunk(CHUNK_EVENTS)
        self.chunk, self.start = _last, _last.count
        self.dropped_before = _dropped
        if most > 0:
            self.most = _last.before + _last.count + most
            _limited.append(self)
        self.memory, self.operands, self.forks = memory, operands, _forks
        _recordings += 1
        _memory_recordings += self.memory
        _operand_recordings += self.operands
        _set_flags()

    def __dealloc__(self):
        self._end()

    @cython.cfunc
    @cython.exceptval(check=False)
    def _end(self) -> cython.void:
        global _last, _recordings, _operand_recordings, _memory_recordings
        if self.closed:
            return
        self.closed = True
        if self.forks != _forks:
            return
        self.last, self.end = _last, 0 if _last is None else _last.count
        self.dropped = _dropped - self.dropped_before
        _recordings -= 1
        _memory_recordings -= self.memory
        _operand_recordings -= self.operands
        _set_flags()
        if not tracing:
            _last = None

    def close(self) -> list:
        """Record no more; the events, in the order of their ends, as (kind, begin, end, thread, payload, second)."""
        self._end()
        if self in _limited:
            _limited.remove(self)
        last: Chunk = self.last if self.forks == _forks else None
        chunk: Chunk = self.chunk
        found: list = []
        start: cython.Py_ssize_t = self.start
        self.chunk = self.last = None
        while chunk is not None and last is not None:
            _read_events(chunk, start, self.end if chunk is last else chunk.count, found)
            chunk = None if chunk is last else chunk.following
            start = 0
        return found

    @property
    def is_full(self):
        """True if it has ended by itself."""
        return self.closed and self.chunk is not None


@cython.cfunc
@cython.exceptval(check=False)
def _end_full(count: cython.longlong) -> cython.void:
    """End the recordings that have as many events as they want, where so many have come."""
    recording: Recording
    for recording in list(_limited):
        if count >= recording.most:
            _limited.remove(recording)
            recording._end()


@cython.cfunc
@cython.exceptval(check=False)
def _set_flags() -> cython.void:
    global tracing, tracing_operands, tracing_memory
    tracing = _recordings > 0
    tracing_operands, tracing_memory = _operand_recordings > 0, _memory_recordings > 0


@cython.cfunc
def _read_events(
    chunk: Chunk, start: cython.Py_ssize_t, end: cython.Py_ssize_t, found: list
) -> cython.void:
    """Append events of a chunk."""
    index: cython.Py_ssize_t
    event: cython.pointer(TraceEvent)
    payload: object
    labels: list = chunk.labels.rows()
    for index in range(start, end):
        event = cython.address(chunk.events[index])
        if event.kind == EMPTY:
            continue
        if event.kind in (LAUNCH, PIECE, ALLOCATE, FREE):
            payload = event.first
        elif event.kind == OWN:
            payload = labels[event.first]
        else:
            payload = chunk.payloads[event.first]
        found.append(
            (
                KINDS[event.kind],
                event.begin_ns,
                event.end_ns,
                event.thread,
                payload,
                event.second,
            )
        )


def set_most_events(count: int) -> int:
    """Let there be at most so many events at a time; returns how many there might be before."""
    global _most
    before = _most
    _most = max(count, 1)
    return before


def _forget() -> None:
    """In a forked child: nobody records, and whoever did closes a recording without events."""
    global tracing, tracing_operands, tracing_memory, _last, _forks
    global _recordings, _operand_recordings, _memory_recordings
    tracing = tracing_operands = tracing_memory = False
    _forks += 1
    _recordings = _operand_recordings = _memory_recordings = 0
    _last = None
    _limited.clear()


os.register_at_fork(after_in_child=_forget)
