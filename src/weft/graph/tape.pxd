from weft.graph.frames cimport thread_id
from weft.graph.node cimport Node

cdef class Tape:
    cdef void* head
    cdef void* tail
    cdef public long long count
    cdef public long long pending_bytes
    cdef public long long left
    cdef public long long arrived_bytes
    cdef public long long watermark
    cdef public Mode mode
    cdef public object running
    cdef public list written
    cdef public list held

cdef class Mode:
    cdef public bint grad
    cdef public bint inference
    cdef public bint eager
    cdef public bint anomaly
    cdef public long long walk
    cdef public bint chosen
    cdef public tuple duals
    cdef public object saved_hooks
    cdef public object extra
    cdef public object fiber

cdef Tape tape_of_thread()
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

# The sequence number of a new record.
cdef inline long long next_sequence() noexcept:
    global _sequence
    _sequence += 1
    return _sequence

# Put a node at the end of a tape.
cdef inline void link(Tape tape, Node node) noexcept:
    cdef void* last = tape.tail
    node.tape = <void*>tape
    node.previous = last
    if last == NULL:
        tape.head = <void*>node
    else:
        (<Node>last).next = <void*>node
    tape.tail = <void*>node
    tape.count += 1
    if node.row.kind != view_kind:
        tape.pending_bytes += node.numel * node.dtype.itemsize

# Take a node off its tape.
cdef inline void unlink(Node node) noexcept:
    cdef Tape tape = <Tape>node.tape
    if node.previous == NULL:
        tape.head = node.next
    else:
        (<Node>node.previous).next = node.next
    if node.next == NULL:
        tape.tail = node.previous
    else:
        (<Node>node.next).previous = node.previous
    tape.count -= 1
    if node.row.kind != view_kind:
        tape.pending_bytes -= node.numel * node.dtype.itemsize
    node.tape = NULL
    node.previous = NULL
    node.next = NULL
