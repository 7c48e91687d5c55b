from weft.engine.ir.primitive cimport Primitive

cdef dict rows
cdef dict late
cdef Primitive add_row
cdef Primitive sub_row
cdef Primitive rsub_row
cdef Primitive mul_row
cdef Primitive div_row
cdef Primitive strided_row
cdef Primitive put_row
cdef Primitive cast_row
cdef Primitive permute_row
