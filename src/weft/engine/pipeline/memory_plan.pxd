from weft.engine.ir.node cimport Node
from weft.engine.pipeline.program_ir cimport Program, ProgramValue

cdef class Plan:
    cdef Program program
    cdef public list external
    cdef public list sizes
    cdef public set kept
    cdef public set in_place
    cdef public set viewed
    cdef list used
    cdef public int overwriting
    cdef int overwrites

cdef bint _reuse
cdef ProgramValue value_of(Plan plan, Node node)
