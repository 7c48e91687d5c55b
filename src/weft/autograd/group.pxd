from weft.graph.node cimport Node
from weft.graph.tensor cimport Tensor

cdef class Bundle:
    cdef Tensor cotangent
    cdef list rows
    cdef list places

cdef class Group:
    cdef list members
    cdef list places
    cdef list whole
    cdef list bundles
    cdef public list parts
    cdef public object likeness
    cdef public bint gone
    cdef Py_ssize_t reached
    cdef public long long left
    cdef public long long behind
    cdef void join(self, Node node)
    cdef void close(self)
    cdef void add(self, Node node, Tensor cotangent, long long row)
    cdef list contributions(self)
    cdef object assemble(self, tuple shape)
    cdef object stack_rows(self)
    cdef tuple in_order(self)
cpdef list join_blocks(list parts, tuple shape)
