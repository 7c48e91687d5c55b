from weft.engine.ir.node cimport Node

cdef tuple union_operands(list members, dict stacks)
cdef Node own_rows(Node member, Py_ssize_t index)
