from weft.autograd.custom.context cimport FunctionCtx
from weft.engine.ir.grad_edges cimport GradientFunction

cdef class FunctionNode(GradientFunction):
    cdef readonly FunctionCtx ctx
    cdef readonly object function
    cdef tuple _output_types  # shape, dtype, shape, dtype, ...
    cdef tuple _inputs  # likewise; None, None for what is no tensor
    cdef tuple _given_over_ranks  # cotangents of arguments of which this rank has a part; None: there are none
    cdef tuple _made_over_ranks  # outputs likewise
    cdef readonly object call  # its tensors in numbers, in anomaly mode
    cdef object code
    cdef int offset_in_code
    cdef object __weakref__
    cdef object _checked(self, Py_ssize_t index, object part)
    cdef object _own_part(self, Py_ssize_t index, object part)
