from weft.schedule.records cimport Program

cdef bint recompute(Program program)
