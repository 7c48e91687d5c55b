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

cdef Tape current_tape()
cdef void link(Tape tape, Node node) noexcept
cdef void unlink(Node node) noexcept
cpdef void finish(Node node) noexcept
cdef long long next_sequence() noexcept

cdef Tape _current
cdef unsigned long long _current_id
cdef long long _sequence
cdef int _view_kind
cdef int ambient
cdef object packer
