cdef extern from "<sys/mman.h>" nogil:
    int PROT_EXEC
    int mprotect(void* address, size_t length, int protection)

cdef extern from "<strings.h>" nogil:
    void bzero(void* memory, size_t size)
