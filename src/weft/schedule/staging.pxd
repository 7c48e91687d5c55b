from weft.schedule.lower cimport Lowering
from weft.schedule.records cimport Kernel

cdef void lower_kernel(Lowering lowering, Kernel kernel)
