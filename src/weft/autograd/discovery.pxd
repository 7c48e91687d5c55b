from weft.graph.node cimport Node

cdef class Discovery:
    cdef long long stamp
    cdef list reached
    cdef dict captured
    cdef int observed
    cdef list displaced  # what the walk around this one keeps on its records
    cdef void displace(self, object record)
    cdef void put_back(self)
    cdef void discover(self, list roots)
    cdef void check_usable(self)
    cdef void reach(self, object edge, bint counted)
    cdef void prune(self)
    cdef bint wanted(self, object node)

cdef object target_of(object edge)
