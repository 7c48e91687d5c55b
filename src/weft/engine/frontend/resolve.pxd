from weft.engine.ir.dtype cimport DType
from weft.engine.ir.node cimport Node
from weft.engine.ir.primitive cimport Primitive
from weft.engine.ir.grad_edges cimport new_sink
from weft.engine.frontend.tensor cimport Tensor

cdef enum:
    MOST_SHARED_STEPS = 8  # longer view chains have a node for their value in addition to their records

cdef Node stored(Tensor tensor)
cdef int regenerate(Tensor tensor) except -1
cdef object function_of(object edge)
cdef DType viewed_dtype(Primitive op, DType dtype)
cdef object view_edge(Primitive op, object params, tuple shape, tuple target, DType dtype, object edge)

# The node of a tensor's current value, in its logical shape.
cdef inline Node value(Tensor tensor):
    return tensor.node if tensor._storage is None else stored(tensor)

# The gradient edge of a non-leaf, regenerated where its base has been mutated since.
cdef inline object edge_now(Tensor tensor):
    if tensor.base is not None and tensor.version_seen != tensor._storage.version:
        regenerate(tensor)
    return tensor.edge

# Whether a gradient flows to this tensor.
cdef inline bint needs_grad(Tensor tensor) except -1:
    return tensor.leaf_grad or edge_now(tensor) is not None

# Where a cotangent of this tensor goes: a node, an output edge, the leaf's accumulator, or None.
cdef inline object edge_of(Tensor tensor):
    edge = edge_now(tensor)
    if edge is not None or not tensor.leaf_grad:
        return edge
    if tensor.accumulator != NULL:
        return <object>tensor.accumulator
    return new_sink(tensor, &tensor.accumulator)
