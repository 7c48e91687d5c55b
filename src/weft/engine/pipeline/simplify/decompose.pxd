from weft.engine.ir.node cimport Node

cdef Node expanded(Node macro, list recorded=*)
cpdef Node recorded_apart(Node node, object rule, list recorded=*)
