from weft.graph.node cimport Node

cdef void adopt(Node quotient, list members, tuple flags)
cdef void become_row(Node node, Node quotient, long long row) noexcept
