from weft.graph.dtype cimport DType
from weft.graph.node cimport Node, OpRow

cdef enum:
    RULE_PROMOTE = 0
    RULE_TO_FLOAT = 1
    RULE_COMPARE = 2
    RULE_LOGICAL = 3
    RULE_INTEGRAL = 4
    RULE_SELECT = 5

cdef class Storage:
    cdef public Node node
    cdef public long long version
    cdef public long long apart
    cdef public object foreign

cdef class VersionCounter:
    cdef public long long version

cdef class Tensor:
    cdef Node node
    cdef public Storage storage
    cdef readonly tuple _shape
    cdef readonly DType _dtype
    cdef public tuple strides
    cdef public long long offset
    cdef object edge
    cdef public bint leaf_grad
    cdef public int creation
    cdef public long long seen
    cdef public Tensor base
    cdef public tuple recipe
    cdef public Tensor _grad
    cdef void* accumulator
    cdef public object hooks
    cdef public VersionCounter counter
    cdef public bint retains
    cdef public bint inference
    cdef void* attributes
    cdef object __weakref__

cdef Node value(Tensor tensor)
cdef object edge_of(Tensor tensor)
cdef bint needs_grad(Tensor tensor)
cdef Tensor wrap(Node node, object edge)

cdef dict _rows
cdef dict _late
cdef long long _budget_nodes
cdef long long _budget_bytes
cdef OpRow _add
cdef OpRow _sub
cdef OpRow _mul
cdef OpRow _div
cdef OpRow _strided
cdef OpRow _put
cdef OpRow _cast
cdef OpRow _neg
cdef OpRow _permute

cpdef record(OpRow row, tuple tensors, object params, tuple shape, DType dtype)
cpdef record_elementwise(OpRow row, tuple operands, object params)
