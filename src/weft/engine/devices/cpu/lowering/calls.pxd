from libc.stdint cimport uintptr_t

from weft.engine.ir.node cimport Node

cdef bint call(Node node, uintptr_t target)
