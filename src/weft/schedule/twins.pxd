from weft.schedule.records cimport Program

cdef bint make_twins(Program program, int most)
