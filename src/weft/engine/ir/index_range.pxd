from weft.engine.ir.node cimport Node

cdef struct Bounds:
    # The least and the largest element that a value may have.
    long long low
    long long high

cdef bint within(Node index, long long size) noexcept
cdef bint scan(Node node, long long offset, long long count, long long* low, long long* high) noexcept
