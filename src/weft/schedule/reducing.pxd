from weft.graph.node cimport Node
from weft.schedule.records cimport Kernel, Program

cdef Kernel join_reduce(Program program, list kernels, Node node)
