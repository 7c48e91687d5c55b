from weft.engine.ir.memory cimport OwnedMemory

cdef void enlist(OwnedMemory buffer) noexcept
cdef void unlist(OwnedMemory buffer) noexcept
