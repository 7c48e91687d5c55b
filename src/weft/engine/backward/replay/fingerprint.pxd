from weft.engine.backward.reachability cimport Reachability
from weft.engine.ir.node cimport Node
from weft.engine.ir.grad_edges cimport AccumulateGrad
from weft.engine.replay.fingerprint cimport Fingerprint

cdef class WalkFingerprint(Reachability):
    cdef Fingerprint key
    cdef list cotangents  # the values that come to the roots
    cdef int outside  # the number of values outside the records
    cdef long long newest  # the creation number of the first root
    cdef bint describe(self, list roots) except -1
    cdef bint has_members(self) noexcept
    cdef bint describe_node(self, Node node) except -1
    cdef bint describe_saves(self, Node node) except -1
    cdef int describe_value(self, Node node) except -1
    cdef bint describe_leaf(self, AccumulateGrad sink) except -1
    cdef bint describe_roots(self, list roots) except -1
