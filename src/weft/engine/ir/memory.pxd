from libc.stdint cimport uintptr_t

cimport cython

@cython.no_gc  # what cimports it has to know, too, or its own kinds of memory are collected and share a free list
cdef class OwnedMemory:
    cdef readonly uintptr_t address
    cdef readonly Py_ssize_t nbytes
    cdef readonly bint foreign
    cdef readonly bint readonly
    cdef readonly object owner
    cdef readonly int owners
    cdef int size_class  # of the block behind it, in its device's own numbers
    cdef readonly int device  # the number of the one that it belongs to (`engine.devices.api`)
    # Of a large block: its neighbours in the list of live blocks, and the value stored in it.
    cdef void* previous
    cdef void* following
    cdef bint listed
    cdef readonly object code
    cdef readonly int offset_in_code
    cdef readonly object shape
    cdef readonly object dtype

cpdef int describe(OwnedMemory buffer, object code, int offset_in_code, object shape, object dtype) except -1
