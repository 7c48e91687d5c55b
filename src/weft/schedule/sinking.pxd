from weft.schedule.records cimport Program

cdef bint sink(Program program, int most)
