from cpython.object cimport PyObject

# One turn of a walk: a node, a gradient function or a batch, which the heap owns, and the sequence number it waits at.
cdef struct Turn:
    long long seq
    PyObject* unit

cdef class SequenceHeap:
    cdef Turn* turns  # none has a higher sequence number than the one at half its place
    cdef Py_ssize_t count
    cdef Py_ssize_t room
    cdef int push(self, object unit, long long seq) except -1
    cdef object pop(self)
