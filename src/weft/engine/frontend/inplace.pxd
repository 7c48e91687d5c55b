from weft.engine.frontend.tensor cimport Tensor

cpdef in_place(Tensor tensor, object new)

cdef class WriteSnapshot:
    cdef list tensors
    cdef list nodes
    cdef bint holds
    cpdef let_go(self)
    cpdef add(self, object tensors)
    cpdef forget_where_sure(self)
    cpdef restore(self)
    cpdef is_untouched(self)
