from weft.engine.pipeline.program_ir cimport Program

cdef bint make_twins(Program program, int most)
