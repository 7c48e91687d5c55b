cpdef tuple contiguous_strides(tuple shape)
cpdef bint is_contiguous(tuple shape, tuple strides)
cdef tuple common_shape(tuple one, tuple other, str name)
