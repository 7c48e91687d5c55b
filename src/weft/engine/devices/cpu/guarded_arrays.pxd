from libc.stdint cimport uint8_t


cdef struct Handler:
    # PyDataMem_Handler of NumPy.
    char[127] name
    uint8_t version
    void* context
    void* (*malloc)(void*, size_t) noexcept
    void* (*calloc)(void*, size_t, size_t) noexcept
    void* (*realloc)(void*, void*, size_t) noexcept
    void (*free)(void*, void*, size_t) noexcept

ctypedef object (*SetHandler)(object)
