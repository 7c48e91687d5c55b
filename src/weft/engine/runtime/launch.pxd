from weft.engine.devices.cpu.executor cimport Executable
from weft.engine.devices.cpu.pool cimport Buffer
from weft.engine.pipeline.launch_ir cimport Lowering

cdef class ProgramRun:
    cdef readonly Lowering lowering
    cdef readonly list buffers
    cdef readonly list addresses
    cdef readonly list checked
    cdef readonly Py_ssize_t status_slot
    cdef readonly Buffer status

    cdef fill_tables(self)
    cdef Executable executable(self)

cdef bint is_compiled(Lowering lowering)
cdef bint is_watched()
