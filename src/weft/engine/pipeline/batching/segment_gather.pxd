from weft.engine.ir.dtype cimport DType
from weft.engine.capi.int_array cimport Integers
from weft.engine.ir.node cimport Node
from weft.engine.pipeline.segment_index cimport SegmentIndex

cdef class Sources:
    cdef Integers numbers
    cdef Integers rows
    cdef readonly dict positions
    cdef Node last
    cdef int number  # of `last`

    cdef void add(self, Node source)
    cdef void add_row(self, Node root, long long row)
    cdef int number_of(self, Node root) except -1
    cdef int add_entry(self, int number, long long row) except -1
    cdef Node gather(self, Integers offsets, tuple shape, DType dtype)

cdef void bound_indices(Node node) noexcept
cdef Node gather(tuple sources, SegmentIndex terms, tuple shape, DType dtype)
