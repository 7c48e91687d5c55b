from weft.graph.node cimport Node

cdef class Discovery:
    cdef long long stamp
    cdef list reached
    cdef dict captured
    cdef int observed
    cdef dict joined  # outputs of several, and the edge to the record of them all
    cdef list displaced  # what the walk around this one keeps on its records
    cdef void displace(self, object record)
    cdef void put_back(self)
    cdef void discover(self, list roots)
    cdef void check_usable(self)
    cdef void reach(self, object edge, bint counted)
    cdef void join_outputs(self, Node node)
    cdef tuple below(self, Node node)
    cdef void prune(self)
    cdef bint wanted(self, object node)

cdef object joint_of(Node node)
cdef object target_of(object edge)
