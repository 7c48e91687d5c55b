from weft.graph.dtype cimport DType
from weft.graph.node cimport Node
from weft.graph.rows cimport OpRow
from weft.graph.tensor cimport Tensor

cdef enum:
    STEPS = 8  # views of more steps have a node for their value beside their records

cdef Node value(Tensor tensor)
cdef object edge_now(Tensor tensor)
cdef bint needs_grad(Tensor tensor)
cdef object edge_of(Tensor tensor)
cdef object function_of(object edge)
cdef DType viewed_dtype(OpRow row, DType dtype)
cdef object view_edge(OpRow row, object params, tuple shape, tuple target, DType dtype, object edge)
