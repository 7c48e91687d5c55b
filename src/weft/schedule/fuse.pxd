from weft.graph.node cimport Node
from weft.schedule.records cimport Kernel, Program

cdef Kernel find(Program program, Node node)

cdef int _max_nodes
cdef int _elementwise
cdef int _reduce
cdef int _source
