from weft.graph.node cimport Node
from weft.graph.rows cimport OpRow

cdef class At:
    cdef readonly object params
    cdef readonly tuple shapes
    cdef readonly tuple shape

cdef list pull_single(Node node, object g, bint create)
cdef list pull_rules(OpRow row, object g, At at, list inputs, object result, tuple edges)
