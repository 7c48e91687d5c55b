cdef class DevicePart:
    cdef readonly int device
    cdef readonly bint copies
    cdef readonly list nodes
    cdef readonly list kept
