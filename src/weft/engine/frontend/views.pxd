from weft.engine.ir.split_specs cimport SplitSpec
from weft.engine.ir.primitive cimport Primitive
from weft.engine.ir.mode cimport Mode
from weft.engine.frontend.tensor cimport Storage, Tensor

cdef enum:
    KIND_UNDER_NO_GRAD = 1
    KIND_MULTIPLE_OUTPUTS = 2
    KIND_UNDER_INFERENCE = 3
    KIND_IN_FUNCTION = 4
    KIND_BITS = 7
    PART_SHIFT = 3  # the number of the output is in the bits above

# How a view that is made now is marked, where its own operation says nothing else.
cdef inline int kind_of_view(Tensor tensor, Mode mode):
    if mode.grad:
        return tensor.creation
    return KIND_UNDER_INFERENCE if mode.inference else KIND_UNDER_NO_GRAD

cdef Storage share(Tensor tensor)
cpdef alias_of(Tensor tensor)
cpdef logical_strides(Tensor tensor)
cdef tuple parts_of(Tensor tensor, SplitSpec cut)
cpdef view(Primitive op, Tensor tensor, object params, tuple shape, tuple strides, long long offset)
