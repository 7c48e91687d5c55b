from weft.engine.ir.node cimport Node
from weft.engine.frontend.tensor cimport Storage, Tensor

cdef void log_write(Storage storage, Node old, Tensor base, object edge)
cdef void discard(Storage storage)
cdef bint is_there(Node node) noexcept
