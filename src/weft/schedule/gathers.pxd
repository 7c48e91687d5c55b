from weft.graph.node cimport Node

cdef class Sources:
    cdef readonly list numbers
    cdef readonly list rows
    cdef readonly dict positions
    cdef Node last
    cdef object number  # of `last`

    cdef void add(self, Node source)
    cdef void add_row(self, Node root, object row)
    cdef Node gather(self, object offsets, Py_ssize_t count, Node like)
