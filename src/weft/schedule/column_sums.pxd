from weft.graph.node cimport Node
from weft.schedule.records cimport Kernel, Program

cdef bint is_over_rows(Kernel kernel, Node node)
cdef bint take_sums(Program program, int most)
