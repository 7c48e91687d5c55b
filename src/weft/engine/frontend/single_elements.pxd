from weft.engine.frontend.tensor cimport Storage, Tensor
from weft.engine.ir.node cimport Node
from weft.engine.ir.primitive cimport Primitive, scalar_row

cdef enum:
    # What is computed with single elements.
    ADD = 1
    SUB = 2
    MUL = 3
    DIV = 4
    LT = 5
    LE = 6
    GT = 7
    GE = 8
    EQ = 9
    NE = 10

cdef object computed(Primitive row, object a, object b)
cdef bint written(Tensor tensor, Storage storage, Node node, Tensor new) except -1
cdef int run_loop(Tensor tensor, Storage storage) except -1

# Whether a storage has been written so often that it is looked whether a loop does it.
cdef inline bint is_turn(Storage storage) noexcept:
    return storage.version >= 8 and storage.version & (storage.version - 1) == 0

# Whether an operand is what loops over elements compute with: a view of one element, or a number that came of one.
cdef inline bint stands_alone(object operand):
    cdef Tensor tensor
    if not isinstance(operand, Tensor):
        return False
    tensor = <Tensor>operand
    if len(tensor._shape) != 0:
        return False
    if tensor.storage is not None:
        return tensor.base is not None
    return tensor.node.row is scalar_row
