from weft.engine.ir.node cimport Node

cpdef void retain_residuals(Node node, tuple edges) noexcept
cdef void retain_masked(Node node, long long mask) noexcept
cpdef void release_residuals(Node node) noexcept
cpdef void drop_inputs(Node node)
cdef void mark_dead_candidate(Node node) noexcept
