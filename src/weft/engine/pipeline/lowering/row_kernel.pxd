from weft.engine.devices.api cimport Device
from weft.engine.ir.node cimport Node
from weft.engine.pipeline.launch_ir cimport KernelSpec
from weft.engine.pipeline.lowering.kernel_encoder cimport KernelEncoder
from weft.engine.pipeline.program_ir cimport Kernel, MemRef, Program

cdef class RowKernelEncoder:
    cdef Program program
    cdef Device device
    cdef Kernel kernel
    cdef list phases
    cdef dict phase_of  # node -> phase
    cdef dict costs  # body node -> what computing it once more costs
    cdef dict spilled  # node -> number of local memory
    cdef list locals  # four times the code of a dtype, and WHOLE, ADDED for one that is added to
    cdef list columns  # sums over rows
    cdef long long bytes  # of whole rows
    cdef long long row  # elements that one has at most
    cdef KernelSpec spec

    cdef KernelEncoder phase(self, Py_ssize_t number)
    cdef bint is_per_row(self, Node node)
    cdef list inside(self, Node node)
    cdef void add(self, Node node)
    cdef void add_column(self, Node node)
    cdef void compute(self, Node node, Py_ssize_t number)
    cdef void provide(self, Node root, Py_ssize_t number, bint in_epilogue)
    cdef bint is_cheap(self, Node node)
    cdef void set_local_steps(self, Node node, KernelEncoder builder, Py_ssize_t at)
    cdef void set_row_steps(self, KernelEncoder builder, Py_ssize_t at, long long step)
    cdef int spill(self, Node node)
    cdef void finish(self)
