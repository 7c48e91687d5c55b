from weft.graph.rows cimport OpRow
from weft.graph.tensor cimport Storage, Tensor

cdef Storage share(Tensor tensor)
cpdef alias_of(Tensor tensor)
cpdef logical_strides(Tensor tensor)
cpdef view(OpRow row, Tensor tensor, object params, tuple shape, tuple strides, long long offset)
