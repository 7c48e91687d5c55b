from weft.engine.ir.node cimport Node
from weft.engine.pipeline.program_ir cimport Kernel, MemRef, Program

cdef class Use:
    cdef readonly Kernel kernel
    cdef readonly Node node
    cdef readonly int number

cpdef void mark_uses(Program program)
cdef dict uses_of(Program program, object wanted)
cdef bint reads_elements(Kernel kernel, MemRef memref)
