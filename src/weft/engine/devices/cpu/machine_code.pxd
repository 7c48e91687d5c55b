from libc.stdint cimport int64_t, uintptr_t
from weft.engine.devices.api cimport Code
from weft.engine.devices.cpu.threads cimport Kernel

cdef class MachineCode(Code):
    cdef readonly uintptr_t address
    cdef readonly uintptr_t final_address
    cdef readonly object library
