from weft.engine.pipeline.lowering.lower cimport Lowering
from weft.engine.pipeline.program_ir cimport Kernel

cdef void lower_kernel(Lowering lowering, Kernel kernel)
