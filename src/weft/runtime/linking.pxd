cdef extern from "<sys/mman.h>" nogil:
    int PROT_EXEC
    int mprotect(void* address, size_t length, int protection)
