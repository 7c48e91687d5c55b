from weft.engine.ir.node cimport Node

# What a quotient is of: kept once, by the quotient, in its `info`.
cdef class Batch:
    cdef readonly tuple flags
    cdef readonly long long count
    cdef readonly Py_ssize_t axis
    cdef readonly tuple operand_rows
    cdef int members

cdef Batch new_batch(tuple flags, long long count, Py_ssize_t axis)

# The batch that a quotient is; of a quotient only.
cdef inline Batch batch_of(Node quotient):
    return <Batch>quotient.info
