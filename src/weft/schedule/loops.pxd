from weft.graph.dtype cimport DType
from weft.graph.node cimport Node
from weft.schedule.lower cimport Lowering
from weft.schedule.records cimport Kernel

cdef void lower_loops(Lowering lowering, Kernel kernel)
cdef void lower_copy(Lowering lowering, DType dtype, tuple shape, tuple source, tuple target)
cdef void lower_indexed(Lowering lowering, Node node)

cdef int _reduce
cdef int _source
cdef dict _specs
