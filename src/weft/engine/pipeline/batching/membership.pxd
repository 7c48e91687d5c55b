from weft.engine.ir.node cimport Node

cdef void adopt(Node quotient, list members, tuple flags)
cdef void become_row(Node node, Node quotient, long long row) noexcept
cdef tuple sources(Node node)
cdef set pending_among(list stack)

cdef inline bint in_ragged(Node member) noexcept:
    """Whether a member of a batch has as many rows of it as it has itself; else it is one row."""
    return len(member.quotient.shape) == len(member.shape)

cdef inline Py_ssize_t row_axis(tuple shape) except -1:
    """The dimension that rows are along: the first one of more than one element (the last one where there is none)."""
    cdef Py_ssize_t axis = 0
    while axis + 1 < len(shape) and shape[axis] == 1:
        axis += 1
    return axis

cdef inline tuple with_height(tuple shape, Py_ssize_t axis, long long height):
    """A shape with another size along one dimension."""
    return shape[:axis] + (height,) + shape[axis + 1:]

cdef long long height_in(Node quotient, Node member)
