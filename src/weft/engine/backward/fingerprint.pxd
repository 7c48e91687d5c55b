from weft.engine.backward.reachability cimport Discovery
from weft.engine.ir.node cimport Node
from weft.engine.ir.grad_edges cimport AccumulateGrad

cdef class Outline(Discovery):
    cdef long long* words
    cdef Py_ssize_t length
    cdef Py_ssize_t capacity
    cdef list parts  # params of records and shapes of their inputs, in the order of the records
    cdef list cotangents  # the values that come to the roots
    cdef int outside  # how many values that are no records have a number
    cdef long long newest  # the creation number of the first root
    cdef long long key
    cdef bint describe(self, list roots) except -1
    cdef bint has_members(self) noexcept
    cdef int reserve(self, Py_ssize_t more) except -1
    cdef void put(self, long long word) noexcept
    cdef void put_shape(self, tuple shape) noexcept
    cdef bint describe_node(self, Node node) except -1
    cdef bint describe_saves(self, Node node) except -1
    cdef int describe_value(self, Node node) except -1
    cdef bint describe_leaf(self, AccumulateGrad sink) except -1
    cdef bint describe_roots(self, list roots) except -1
    cdef void digest(self) noexcept
