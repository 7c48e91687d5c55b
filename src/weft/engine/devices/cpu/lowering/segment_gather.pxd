from weft.engine.ir.node cimport Node
from weft.engine.pipeline.launch_ir cimport Lowering

cdef void lower_rows(Lowering lowering, Node node)
cdef bint lower_joined(Lowering lowering, Node node)
