from libc.stdint cimport uintptr_t

from weft.engine.ir.dtype cimport DType
from weft.engine.ir.node cimport Node
from weft.engine.pipeline.launch_ir cimport Lowering

cdef void lower_copy(Lowering lowering, DType dtype, tuple shape, tuple source, tuple target)
cdef bint call_indexed(Node node, uintptr_t target)
cdef void lower_indexed(Lowering lowering, Node node)
cdef void lower_region(Lowering lowering, Node node)
cdef void copy_base(Lowering lowering, Node node, Node base)
