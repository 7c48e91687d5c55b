from weft.engine.capi.call_site cimport thread_id
from weft.engine.ir.mode cimport Mode
from weft.engine.ir.node cimport Node

cdef class Tape:
    cdef void** nodes  # in order of creation; NULL where one has left
    cdef Py_ssize_t filled
    cdef Py_ssize_t room
    cdef public long long count
    cdef public long long pending_bytes
    cdef public long long left
    cdef public long long arrived_bytes
    cdef public long long watermark
    cdef long long narrow_from  # where the last graph that was searched begins, if it was narrow; else 0
    cdef long long narrow_to  # the newest node when it was searched
    cdef public Mode mode
    cdef public object running
    cdef public list written
    cdef public list held
    cdef public list refusals  # the newest sequence number at each refusal, oldest first

cdef Tape tape_of_thread()
cdef int make_room(Tape tape) except -1
cpdef void finish(Node node) noexcept

cdef Tape _current
cdef unsigned long long _current_id
cdef long long _sequence
cdef int view_kind
cdef int ambient
cdef object packer

# The calling thread's tape.
cdef inline Tape current_tape():
    return _current if thread_id() == _current_id else tape_of_thread()

# Note the search of a graph: whether it is too narrow for batches. It begins behind the last walk and the last search,
# or at the first node with edges that it has (records of views, which come before what reads them, are no nodes).
cdef inline void note_search(Tape tape, long long first, bint narrow) noexcept:
    cdef long long before = tape.watermark if tape.watermark > tape.narrow_to else tape.narrow_to
    tape.narrow_from = 0 if not narrow else first if first <= before else before + 1
    tape.narrow_to = _sequence

# Whether a record is part of the last graph that was searched, which is narrow.
cdef inline bint is_in_narrow_graph(Tape tape, long long seq) noexcept:
    return 0 < tape.narrow_from <= seq <= tape.narrow_to

# The sequence number of a new record.
cdef inline long long next_sequence() noexcept:
    global _sequence
    _sequence += 1
    return _sequence

# Put a node at the end of a tape.
cdef inline int link(Tape tape, Node node) except -1:
    if tape.filled == tape.room:
        make_room(tape)
    tape.nodes[tape.filled] = <void*>node
    node.position = tape.filled
    node.tape = <void*>tape
    tape.filled += 1
    tape.count += 1
    if node.op.kind != view_kind:
        tape.pending_bytes += node.numel * node.dtype.itemsize
    return 0

# Take a node off its tape.
cdef inline void unlink(Node node) noexcept:
    cdef Tape tape = <Tape>node.tape
    tape.nodes[node.position] = NULL
    tape.count -= 1
    if node.position == tape.filled - 1:
        tape.filled -= 1
    if tape.count == 0:
        tape.filled = 0
    if node.op.kind != view_kind:
        tape.pending_bytes -= node.numel * node.dtype.itemsize
    node.tape = NULL
