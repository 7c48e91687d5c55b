from weft.engine.ir.node cimport Node
from weft.engine.replay.trace cimport Trace

cdef class Recorder:
    cdef Trace trace
    cdef dict numbers  # of values, and of nodes as edges
    cdef dict edges
    cdef Py_ssize_t filled  # values have so many numbers
    cdef Py_ssize_t constant_bytes
    cdef int give(self, Node value, object edge) except -1
    cdef bint write(self, Trace trace, list nodes) except -1
    cdef bint reads_all(self, list values)  except -1
    cdef bint add(self, Node node) except -1
    cdef bint accepts(self, Node node) except -1
    cdef bint add_edges(self, Node node) except -1
    cdef bint put_operand(self, object number) except -1
    cdef object number_of(self, Node source)
    cdef bint is_constant(self, Node source) except -1
