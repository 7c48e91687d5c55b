from libc.stdint cimport int64_t
from weft.engine.devices.api cimport Code

cdef enum:
    MOST_POINTERS = 8  # of a kernel that is called by itself
    MOST_ARGUMENTS = 64
    MOST_WORDS = 2 * MOST_POINTERS + MOST_ARGUMENTS

# How the units of a kernel are shared out: the least that a thread takes, and about what all of them take together.
cdef struct KernelWork:
    int64_t units
    int64_t grain_size
    int64_t cost_ns

cdef bint is_callable(int64_t cost_ns) noexcept
cdef int call_kernel_now(Code code, void** pointers, Py_ssize_t pointer_count, int64_t* arguments,
                         Py_ssize_t argument_count, KernelWork work) except -1
