from weft.engine.capi.growable_array cimport Array
from weft.engine.pipeline.launch_ir cimport KernelSpec

cdef KernelSpec look_up(Array* words)
cdef void remember(Array* words, KernelSpec spec) except *
