from weft.engine.devices.api cimport Executable, Memory
from weft.engine.ir.memory cimport OwnedMemory
from weft.engine.pipeline.launch_ir cimport Lowering

cdef class ProgramRun:
    cdef readonly Lowering lowering
    cdef readonly list buffers
    cdef readonly list addresses
    cdef readonly list checked
    cdef readonly Py_ssize_t status_slot
    cdef readonly OwnedMemory status
    cdef Memory memory

    cdef fill_tables(self)
    cdef Executable executable(self)
    cdef bint has_failed(self, Py_ssize_t index) except -1

cdef bint is_compiled(Lowering lowering)
