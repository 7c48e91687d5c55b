from weft.engine.frontend.tensor cimport Tensor

cdef class SavedInput:
    cdef Tensor tensor
    cdef Tensor value
    cdef object version
    cdef int number
    cdef object packed
    cdef object edge
    cdef void settle(self, tuple outputs, tuple arguments, tuple dirty)
    cpdef object unpack(self, object record)

cdef class FunctionCtx:
    cdef tuple _saved  # None where it has been freed
    cdef tuple _forward  # for jvp; None where nothing else than `_saved` was declared
    cdef bint _pushing  # jvp is running
    cdef bint _given  # what was saved has been handed over for good
    cdef tuple _dirty
    cdef tuple _constant
    cdef bint _materialize
    cdef object _record  # a weak reference to the gradient record, where something is saved
    cdef public tuple needs_input_grad
    cdef dict __dict__

cdef bint among(object item, object items)

cdef tuple NOTHING
