from weft.engine.ir.node cimport Node
from weft.engine.pipeline.program_ir cimport Kernel, Program

cdef Kernel join_elementwise(Program program, list kernels, Node node)
