from weft.engine.ir.node cimport Node

cpdef void acquire_saves(Node node, tuple edges) noexcept
cpdef void release_saves(Node node) noexcept
cpdef void drop_inputs(Node node)
cdef void note_idle(Node node) noexcept
