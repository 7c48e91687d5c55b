from weft.engine.pipeline.program_ir cimport Program

cpdef void merge_equal(Program program)
