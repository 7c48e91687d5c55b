from weft.engine.ir.node cimport FAILED, Node, error_of
from weft.engine.frontend.tensor cimport Tensor

cdef object no_data
cdef bint any_on_meta  # whether a value was ever made on the device meta

# Whether a value is on the device meta: it has a shape and a dtype, and never memory.
cdef inline bint is_meta(Node node) noexcept:
    return node.state == FAILED and error_of(node) is no_data

cdef bint shows_meta(Tensor tensor) noexcept
cdef int number_of_device(Tensor tensor) noexcept
cdef void check_write(Node old, Node new)
cdef void note_meta()
cdef object on_two_devices(bint expects_cpu)
