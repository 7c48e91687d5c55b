from weft.engine.ir.node cimport Node
from weft.engine.frontend.tensor cimport Storage, Tensor

cdef void note_former(Storage storage, Node old, Tensor base, object edge)
cdef void forget(Storage storage)
