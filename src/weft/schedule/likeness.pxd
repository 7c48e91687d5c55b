from weft.graph.node cimport Node

cdef enum:
    ROW_BYTES = 32768  # larger rows gain nothing from company

cdef object identity(Node node)
cdef object edge_identity(object edge)
cdef str role_of(Node node, Py_ssize_t index)
cdef long long line_of(Node node)
cdef int way_of(Node node)
cdef unsigned long long hash_of(Node node)
cdef long long address_of(Node node)
cdef bint alike(Node one, Node other)
cdef bint same_line(Node one, Node other)
cdef bint operands_alike(Node one, Node other, Py_ssize_t index)
cdef bint adds_rows(Node node)
