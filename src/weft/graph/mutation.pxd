from weft.graph.tensor cimport Tensor

cpdef in_place(Tensor tensor, object new)
