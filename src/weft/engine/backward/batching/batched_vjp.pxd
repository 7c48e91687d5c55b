from weft.engine.backward.reachability cimport Reached
from weft.engine.capi.int_array cimport Integers
from weft.engine.ir.node cimport Node
from weft.engine.frontend.tensor cimport Tensor

cdef class RowContributions:
    cdef Tensor cotangent
    cdef Integers rows
    cdef Integers member_numbers

cdef class Group:
    cdef Reached* known  # of the walk, which outlives its groups
    cdef Node quotient  # members let go of theirs where a hook walks over them too
    cdef Integers members  # the numbers of those that are reached
    cdef Integers rows  # of the quotient that have been reached; None for all
    cdef bint ragged  # members have as many rows as they are high
    cdef Py_ssize_t axis  # along this dimension
    cdef tuple operand_rows  # of a union of tables: as its batch has them
    cdef list dense
    cdef list row_contributions
    cdef public list parts
    cdef public object merge_key
    cdef public bint gone
    cdef public long long pending
    cdef public long long arrivals
    cdef int put(self, Node node, int number) except? -1
    cdef int close(self) except? -1
    cdef void sort_members(self)
    cdef Node at(self, Py_ssize_t member)
    cdef list nodes(self)
    cdef tuple edges(self)
    cdef int add(self, int member, Tensor cotangent, int row) except? -1
    cdef list contributions(self)
    cdef list bundled(self)
    cdef list slices(self, object dense)
    cdef list slices_of_operand(self, object whole, int index)
    cdef bint is_partial_union(self) except? -1
    cdef Integers reached_rows(self)
    cdef object assemble(self, tuple shape)
    cdef object stack_blocks(self, tuple shape)
    cdef object stack_rows(self)
    cdef object lay_rows(self)
    cdef object sum_of(self, list parts, Py_ssize_t member)
    cdef tuple in_order(self)

cdef Group group_of(Reached* known, Node quotient, bint ragged)
cdef Group new_group(Reached* known, Node quotient, Py_ssize_t rows)
cdef RowContributions new_row_contributions(Tensor cotangent)
cpdef list join_blocks(list parts, tuple shape)
