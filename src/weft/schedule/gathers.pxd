from weft.graph.dtype cimport DType
from weft.graph.integers cimport Integers
from weft.graph.node cimport Node
from weft.schedule.terms cimport Terms

cdef class Sources:
    cdef Integers numbers
    cdef Integers rows
    cdef readonly dict positions
    cdef Node last
    cdef int number  # of `last`

    cdef void add(self, Node source)
    cdef void add_row(self, Node root, long long row)
    cdef Node gather(self, Integers offsets, tuple shape, DType dtype)

cdef Node gather(tuple sources, Terms terms, tuple shape, DType dtype)
