from weft.engine.devices.api cimport Lowerer

cdef class CpuLowerer(Lowerer):
    pass
