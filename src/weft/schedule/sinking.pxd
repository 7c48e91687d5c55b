from weft.schedule.records cimport Program

cdef bint sink(Program program, int most)
cdef void note_readers(Program program)
