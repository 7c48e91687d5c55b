from weft.engine.capi.growable_array cimport Array
from weft.engine.pipeline.launch_ir cimport Lowering
from weft.engine.pipeline.lowering.kernel_encoder cimport KernelEncoder
from weft.engine.pipeline.program_ir cimport Kernel

cdef enum:
    AXIS = 255  # bits of a schedule that hold the vectorized axis plus one
    NARROW = 256  # the bit of a schedule for few columns of many rows

cdef long long schedule_of(KernelEncoder encoder) noexcept
cdef bint ends(KernelEncoder encoder) noexcept
cdef void lower_loops(Lowering lowering, Kernel kernel)
cdef void launch_loops(Lowering lowering, KernelEncoder encoder, Array* pointers)
