from weft.engine.ir.node cimport Node

cdef enum:
    EQUAL = -1  # members have equal heights, and operands of equal shapes
    MIXED = -2  # members cannot be laid along one dimension

cdef Py_ssize_t height_axis(list members)
cdef Py_ssize_t axis_of_operands(list members)
cdef list of_one_height(list members)
cdef long long height_of(list members, Py_ssize_t axis)
cdef tuple ragged_operands(list members, list columns, Py_ssize_t axis)
cdef Node lay(list sources, Py_ssize_t axis)
cdef Node number_in(list sources)
cdef Node expanded(Node number, tuple shape)
cdef Node piece(Node whole, Py_ssize_t axis, long long start, long long count)
cdef Node in_shape_of(Node node, tuple shape)
