cdef tuple row_major(tuple shape)

cdef dict _contiguous
