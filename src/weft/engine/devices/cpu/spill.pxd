from libc.stdint cimport int64_t
from posix.types cimport off_t

cdef extern from "unistd.h" nogil:
    Py_ssize_t pread(int file, void* memory, size_t nbytes, off_t offset)
    Py_ssize_t pwrite(int file, const void* memory, size_t nbytes, off_t offset)

cdef int spill_failure  # the errno of a transfer that failed, 0: none

cdef void transfer(void** pointers, int64_t* arguments, int64_t begin, int64_t end) noexcept nogil
cpdef object take_failure()
cdef int take_file(long long nbytes) except -1
cdef void leave_file() noexcept
