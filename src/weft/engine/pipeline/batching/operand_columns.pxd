from cpython.object cimport PyObject
from weft.engine.ir.node cimport Node

cdef enum:
    NO_ROWS = 0
    IN_ORDER = 1
    OUT_OF_ORDER = 2

cdef class Column:
    cdef PyObject** items  # borrowed: the members' inputs hold them
    cdef Py_ssize_t count
    cdef bint same  # one operand for all members
    cdef bint viewed  # some operand is a view that has not run
    cdef int order

    cdef Node at(self, Py_ssize_t position)
    cdef void put(self, Py_ssize_t position, Node source) noexcept
    cdef unsigned long long hash(self) noexcept
    cdef list order_of_rows(self)
    cdef void arrange(self, list order_of_rows)

cdef bint same_operands(Column one, Column other) noexcept
cdef list read_columns(list members, Py_ssize_t arity)
cdef Column column_of(list sources)
cdef Node below_views(Node node)
