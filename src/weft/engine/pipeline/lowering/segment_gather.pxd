from weft.engine.ir.node cimport Node
from weft.engine.pipeline.launch_ir cimport Lowering

cdef class SegmentTable:
    cdef readonly int slot
    cdef readonly int offsets_slot
    cdef readonly long long count
    cdef readonly long long bounds
    cdef readonly object data

    cdef void fill(self, size_t* addresses)

cdef void lower_rows(Lowering lowering, Node node)
cdef bint lower_joined(Lowering lowering, Node node)
