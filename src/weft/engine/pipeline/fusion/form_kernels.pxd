from weft.engine.pipeline.program_ir cimport Program

cpdef void form_kernels(Program program)
