from cpython.object cimport PyObject

# What is ready: a node, a gradient function or a batch, which the heap owns, and the sequence number it waits at.
cdef struct ReadyUnit:
    long long seq
    PyObject* unit

cdef class SequenceHeap:
    cdef ReadyUnit* turns  # none has a higher sequence number than the one at half its place
    cdef Py_ssize_t count
    cdef Py_ssize_t room
    cdef int push(self, object unit, long long seq) except -1
    cdef object pop(self)
