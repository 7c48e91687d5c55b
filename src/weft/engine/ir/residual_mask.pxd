# Whether a node's mask of saves names an input. Only the first inputs of a record can be saved, of however many.

from weft.engine.ir.node cimport RESULT_SHIFT

cdef inline bint is_saved(long long mask, Py_ssize_t index) noexcept:
    return index < RESULT_SHIFT and (mask >> index) & 1
