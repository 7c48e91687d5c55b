from weft.engine.ir.node cimport Node

cdef bint used  # whether any collective has been recorded yet

cdef void note(Node node)
