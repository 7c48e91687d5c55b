from libc.stdint cimport uintptr_t

cdef enum:
    CELL_STEP = 8192  # a page that holds a number at its end, and one that cannot be touched

cdef uintptr_t map_guarded(Py_ssize_t nbytes, bint at_end) noexcept
cdef uintptr_t map_cells(Py_ssize_t count) noexcept
cdef void unmap_guarded(uintptr_t address, Py_ssize_t nbytes) noexcept
