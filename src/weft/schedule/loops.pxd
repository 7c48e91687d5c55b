from weft.graph.node cimport Node
from weft.schedule.lower cimport KernelSpec, Lowering
from weft.schedule.records cimport Kernel, Place, Program

cdef class Builder:
    cdef Program program
    cdef Kernel kernel
    cdef list axes
    cdef int reduced
    cdef list dims
    cdef list operands
    cdef list sources  # places of the operands in memory
    cdef list loaded  # of each: (shape, whether in the epilogue, value)
    cdef bint plain  # all axes are parallel, and none is of size 1
    cdef list body
    cdef list reduces
    cdef list epilogue
    cdef list stores
    cdef list targets  # the stored nodes
    cdef dict ids
    cdef dict late  # values of earlier phases, for the epilogue
    cdef KernelSpec spec

    cdef list body_strides(self, tuple shape, tuple strides)
    cdef list epilogue_strides(self, tuple shape, tuple strides)
    cdef tuple load(self, list code, Node source, Place place, bint in_epilogue)
    cdef tuple argument(self, Node source, bint in_epilogue)
    cdef void add(self, Node node)
    cdef void store(self, Node node)
    cdef void collapse(self)
    cdef list strides(self)
    cdef void restride(self, list kept)

cdef tuple collapsed(list sizes, list rows, int reduced_axes)
cdef str classes(list strides)
cdef tuple loop_key(Builder builder, Py_ssize_t rank, int reduced, int axis)

cdef void lower_loops(Lowering lowering, Kernel kernel)
cdef KernelSpec find_spec(Builder builder)
cdef void launch_loops(Lowering lowering, Builder builder, list pointers)

cdef int _reduce
cdef int _source
cdef dict _specs
cdef int _real
cdef int _virtual
