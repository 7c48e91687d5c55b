from weft.engine.ir.node cimport Node
from weft.engine.pipeline.program_ir cimport Kernel, Program

cdef Kernel join_reduce(Program program, list kernels, Node node)
