from weft.engine.devices.tuning cimport Batching
from weft.engine.ir.node cimport Node

cdef bint is_wide(list nodes)
cdef bint may_join(Node node)
cdef double spared_by(Node node, Py_ssize_t count, Batching tuning) noexcept
