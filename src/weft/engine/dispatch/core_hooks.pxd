from weft.engine.ir.primitive cimport OpRow

cdef dict rows
cdef dict late
cdef OpRow add_row
cdef OpRow sub_row
cdef OpRow rsub_row
cdef OpRow mul_row
cdef OpRow div_row
cdef OpRow strided_row
cdef OpRow put_row
cdef OpRow cast_row
cdef OpRow permute_row
