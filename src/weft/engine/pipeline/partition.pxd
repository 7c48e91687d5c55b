from weft.engine.ir.node cimport Node

cdef class DevicePart:
    cdef readonly int device
    cdef readonly bint copies
    cdef readonly list nodes
    cdef readonly list kept

cdef class Segment:
    cdef readonly list nodes
    cdef readonly list awaited
    cdef readonly list kept
    cdef readonly list begun
    cdef readonly list finished
    cdef readonly long long nbytes

cdef bint has_collectives(list nodes)
