from weft.engine.ir.dtype cimport DType

cdef int store_number(object number, DType dtype, char* target) except -1
cdef object load_number(DType dtype, char* place)
