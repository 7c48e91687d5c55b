from weft.engine.ir.node cimport Node
from weft.engine.pipeline.program_ir cimport Kernel, Program

cdef bint is_rewritten(Node node)
cdef Program program_of(Node node)
cdef Kernel kernel_of(Node node)
