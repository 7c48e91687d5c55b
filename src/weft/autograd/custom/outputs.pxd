from weft.autograd.custom.context cimport FunctionCtx

cdef tuple edges_of(tuple arguments)
cdef tuple needs(tuple edges, Py_ssize_t count)
cdef object apart(FunctionCtx ctx, tuple arguments, object outputs, bint tracked)
cdef object attach(object cls, FunctionCtx ctx, tuple arguments, tuple edges, object outputs)

cdef tuple _YES
cdef tuple _NO
