from weft.graph.node cimport Node

cdef Node stack(list sources, dict stacks)
