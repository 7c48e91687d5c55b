from weft.engine.frontend.tensor cimport Tensor

cdef class RemovableHandle:
    cdef dict _table
    cdef readonly long long id

cdef class Observers:
    cdef public dict tensor_hooks  # number -> (output, hook)
    cdef public long long packed_mask
    cdef public object grad_dtype
    cdef dict _prehooks
    cdef dict _posthooks
    cdef dict _post_accumulate
    cdef list _retained
    cdef dict _packed
    cdef dict _metadata

cdef long long _numbers

cpdef RemovableHandle add_hook(dict table, object entry)
cdef object before_one(Observers observers, object gradient)
cdef tuple before_node(Observers observers, tuple gradients)
cdef tuple before_vjp(Observers observers, tuple gradients)
cdef list after_node(Observers observers, list parts, tuple gradients)
cdef object observe_leaf(Tensor leaf, object gradient)
