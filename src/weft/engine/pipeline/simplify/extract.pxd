from weft.engine.pipeline.program_ir cimport Program

cpdef void extract(Program program, list pending)
cpdef void reach(Program program)
