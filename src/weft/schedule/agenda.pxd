from weft.graph.node cimport Node

cdef object identity(Node node)
cdef object edge_identity(object edge)
