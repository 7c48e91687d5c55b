from weft.engine.ir.node cimport Node

cpdef double cost_of(Node node)
