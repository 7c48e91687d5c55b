from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from weft.engine.capi.clock cimport now
from weft.engine.capi.growable_array cimport Array
from weft.engine.ir.node cimport Node

cdef enum:
    CHUNK_EVENTS = 4096
    TIMED_NODES = 16  # nodes that the interpreter runs between two looks at the clock, which costs as much as a node
    TIMED_ELEMENTS = 4096  # and elements of theirs
    MOST_LABELS = 262144  # of a program or a flush: a profile of more would take minutes to read

# Kinds of events; what `first` and `second` of each are stands in `trace.py`.
cdef enum:
    EMPTY = 0  # reserved, and not written
    FLUSH
    STAGE
    COMPILE
    PROGRAM
    LAUNCH
    PIECE
    NODES
    WALK
    COLLECTIVE
    ALLOCATE
    FREE
    OWN
    RANGE
    MODULE

cdef struct TraceEvent:
    int64_t begin_ns
    int64_t end_ns
    int64_t first
    int64_t second
    unsigned long thread
    int kind

# What is kept of a node: references that it owns, and where its operands are among those of the others. A cache line of
# it: many are written while the clock runs.
cdef struct LabelWords:
    PyObject* op
    PyObject* code
    PyObject* shape
    PyObject* dtype
    int offset_in_code
    int position  # twice, and 1 where it is stored
    int operands
    int slot
    int last_use
    int members
    long long seq

cdef class Labels:
    cdef LabelWords* labels
    cdef Py_ssize_t count, room
    cdef Array operands  # of all labels behind each other: shape; dtype, lowest bit: the same launch computes it
    cdef Array launches  # of a program: twice the position of each, and 1 for a second function
    cdef public long long first  # the number of the first node of the flush that they were taken of
    cdef public long long omitted  # nodes without a label, where there are too many
    cdef public list specs  # and the kernels that they run
    cdef public set again  # the launches that compute what an earlier one has computed; None: there are none
    cdef readonly object rows_read  # what `rows` has made

    cdef void make_room(self, Py_ssize_t count) noexcept
    cdef int add(self, Node node, tuple inputs, int position, bint stored) except -1
    cdef void note_slot(self, int slot, int last_use) noexcept
    cdef int add_operand(self, object shape, object dtype, bint inside) except -1
    cdef list _read(self)

cdef class NodeTimes:
    cdef Labels labels
    cdef int64_t begin_ns
    cdef Py_ssize_t first
    cdef long long elements
    cdef bint alone  # the next node is timed by itself

    cdef void add(self, Node node, tuple inputs) noexcept
    cdef void close(self) noexcept

cdef class Chunk:
    cdef TraceEvent* events
    cdef Py_ssize_t count, room
    cdef long long before  # events in the chunks that lead to it
    cdef list payloads
    cdef Labels labels
    cdef Chunk following

cdef class Recording:
    cdef Chunk chunk, last  # that it began in, and ended in
    cdef Py_ssize_t start, end
    cdef long long most, dropped_before, forks
    cdef bint memory, operands, closed
    cdef readonly long long dropped

    cdef void _end(self) noexcept

cdef bint tracing  # whether anybody records
cdef bint tracing_operands  # whether anybody wants to know the operands of nodes that are interpreted
cdef bint tracing_memory  # whether anybody records what is allocated and freed

cdef TraceEvent* reserve(Py_ssize_t count) noexcept
cdef Chunk last_chunk()
cdef void put(int kind, int64_t begin_ns, int64_t end_ns, int64_t first, int64_t second) noexcept
cdef void put_payload(int kind, int64_t begin_ns, int64_t end_ns, object payload, int64_t second) noexcept
cdef void put_owner(Node node, size_t address) noexcept
