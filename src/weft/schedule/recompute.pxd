from weft.graph.node cimport Node
from weft.schedule.records cimport Program

cdef bint recompute(Program program)
cdef Node copy_of(Node node, tuple inputs)
