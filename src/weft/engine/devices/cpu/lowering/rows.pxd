from weft.engine.pipeline.launch_ir cimport Lowering
from weft.engine.pipeline.program_ir cimport Kernel

cdef void lower_kernel(Lowering lowering, Kernel kernel)
