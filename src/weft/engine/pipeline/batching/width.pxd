from weft.engine.ir.node cimport Node

cdef bint is_wide(list nodes)
cdef bint may_join(Node node)
