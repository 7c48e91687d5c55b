from weft.engine.ir.node cimport Node
from weft.engine.pipeline.program_ir cimport Program

cpdef void rematerialize(Program program)
cdef Node copy_of(Node node, tuple inputs)
