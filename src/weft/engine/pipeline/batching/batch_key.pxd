from weft.engine.devices.tuning cimport Batching
from weft.engine.ir.node cimport Node

cdef enum:
    ADDED_UP = -2  # the `qrow` of a sum that one other sum extends, and nothing else reads: it has no row

cdef inline bint goes_on(Node node) noexcept:
    """Whether a sum is nothing but the beginning of its only reader."""
    return node.qrow == ADDED_UP and node.quotient is None

cdef Batching tuning_of(Node node)
cdef object identity(Node node)
cdef object edge_identity(object edge)
cdef long long most_bytes(Node node)
cdef str operand_role(Node node, Py_ssize_t index)
cdef long long call_site_hash(Node node)
cdef unsigned long long batch_hash(Node node)
cdef long long address_of(Node node)
cdef bint is_batchable_with(Node one, Node other)
cdef bint same_call_site(Node one, Node other)
cdef bint operands_alike(Node one, Node other, Py_ssize_t index)
cdef bint edge_matters(Node node, Py_ssize_t index) except -1
cdef bint joins_tables(Node node) except -1
cdef bint adds_rows(Node node)
cdef Py_ssize_t operand_axis(Node node, Py_ssize_t index, Py_ssize_t axis)
cdef Py_ssize_t axis_between(tuple one, tuple other)
cdef bint same_for_all(Node one, Node other, Py_ssize_t index)
cdef bint is_one_gather(Node node)
