cdef class DType:
    cdef readonly str name
    cdef readonly int code
    cdef readonly int itemsize
    cdef readonly int category
    cdef readonly object numpy
    cdef readonly bint is_floating_point
    cdef readonly bint is_complex
    cdef readonly bint is_signed

cdef list OPS
cpdef DType promote(DType a, DType b)
