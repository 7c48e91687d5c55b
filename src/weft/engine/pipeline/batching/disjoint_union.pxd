from weft.engine.ir.node cimport Node

cdef void unite(list members, dict stacks)
cdef Node own_rows(Node member, Py_ssize_t index)
