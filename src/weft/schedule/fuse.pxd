from weft.graph.node cimport Node
from weft.schedule.records cimport Kernel, Place, Program

cdef Kernel find(Program program, Node node)
cdef bint is_row_value(Kernel kernel, Node root)

cdef int _max_nodes
cdef int _elementwise
cdef int _reduce
cdef int _source
