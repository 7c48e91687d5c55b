from weft.engine.devices.api cimport Device
from weft.engine.ir.node cimport Node
from weft.engine.capi.growable_array cimport Array
from weft.engine.pipeline.launch_ir cimport KernelSpec
from weft.engine.pipeline.program_ir cimport Kernel, MemRef, Program

cdef enum:
    LOAD = -1  # instructions that are no op's: LOAD an operand's value, OFFSET an operand's offset
    OFFSET = -2
    BODY = 0  # upper half of a value's number: the part that makes it (the lower half is its index there)
    REDUCED = 1
    EPILOGUE = 2
    PART = 32
    REGION = 5  # words of a region: dtype, kind, first step, and of a store its value and whether it is in the epilogue

cdef class KernelEncoder:
    cdef Device device
    cdef long long schedule  # how the device runs it, once that has been asked
    cdef Program program
    cdef Kernel kernel
    cdef readonly KernelSpec spec
    cdef tuple shape
    cdef tuple axes  # in the order of the loops
    cdef bint plain  # all axes are parallel, and none is of size 1
    cdef int reduced
    cdef Py_ssize_t rank, wide  # loop axes; words from one region's steps to the next one's
    cdef Array dims
    cdef Array steps
    cdef Array operands
    cdef Array stores
    cdef Array body  # instructions: what, dtype, operand, number of arguments, arguments
    cdef Array reduces  # what, value, dtype
    cdef Array epilogue
    cdef Py_ssize_t body_count, epilogue_count
    cdef Array values  # (node, value) of what the kernel has computed
    cdef Array late  # the same of earlier phases, for the epilogue
    cdef Array loaded  # (whether in the epilogue, value) of the operands in memory
    cdef list sources  # their places
    cdef list targets  # the stored nodes

    cdef int start(self, tuple shape, tuple reduced) except -1
    cdef Py_ssize_t region(self, Array* regions, int dtype, int kind, long long value, bint late) except -1
    cdef int body_steps(self, Py_ssize_t at, tuple shape, tuple strides) except -1
    cdef int epilogue_steps(self, Py_ssize_t at, tuple shape, tuple strides) except -1
    cdef Array* part(self, bint in_epilogue) noexcept
    cdef long long code(self, bint in_epilogue, int what, int dtype, Py_ssize_t operand, Py_ssize_t arity) except -1
    cdef long long load(self, MemRef memref, bint in_epilogue) except -1
    cdef long long argument(self, MemRef memref, bint in_epilogue) except -1
    cdef int add(self, Node node) except -1
    cdef int store(self, Node node) except -1
    cdef int name(self, Node node, long long value) except -1
    cdef int name_late(self, Node node, long long value) except -1
    cdef long long value_of(self, Node node) noexcept
    cdef long long late_value_of(self, Node node) noexcept

cdef KernelEncoder new_encoder(Program program, Kernel kernel)
cdef int collapse(list encoders) except -1
cdef int add_outer_axis(KernelEncoder encoder) except -1
