from weft.engine.pipeline.program_ir cimport Program

cpdef void sink(Program program)
