from weft.engine.pipeline.program_ir cimport Program

cdef bint sink(Program program, int most)
cdef void note_readers(Program program)
