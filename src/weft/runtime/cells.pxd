from weft.graph.dtype cimport DType
from weft.graph.node cimport Node

cdef int store_number(object number, DType dtype, char* target) except -1
cpdef object load_number(Node node, long long offset)
