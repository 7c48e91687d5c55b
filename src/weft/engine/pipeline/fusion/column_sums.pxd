from weft.engine.ir.node cimport Node
from weft.engine.pipeline.program_ir cimport Kernel, Program

cdef bint take_sums(Program program, int most)
