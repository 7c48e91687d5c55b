from weft.engine.ir.node cimport Node
from weft.engine.pipeline.program_ir cimport Kernel, Place, Program

cdef Kernel find(Program program, Node node)
cdef bint is_row_value(Kernel kernel, Node root)
cdef bint in_epilogue(Kernel kernel, Node node)
cdef int room(Kernel kernel)
cdef void append_kernel(list kernels, Kernel kernel)
cdef bint raise_kernel(Program program, list kernels, Kernel early, Kernel late)

cdef int _max_nodes
cdef int _elementwise
cdef int _reduce
cdef int _source
