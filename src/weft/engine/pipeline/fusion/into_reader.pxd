from weft.engine.pipeline.program_ir cimport Program

cpdef void sink(Program program)
cdef void note_readers(Program program)
