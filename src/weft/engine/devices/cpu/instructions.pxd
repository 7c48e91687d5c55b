from libc.stdint cimport int64_t, uintptr_t
from cpython.buffer cimport Py_buffer
from weft.engine.devices.api cimport Code, Executable
from weft.engine.devices.cpu.threads cimport Kernel

cdef enum:
    SPLIT_ABOVE = 20000  # ns of work from which an instruction is shared out
    LAUNCH_WORK = 100  # ns that any launch counts for in the sum of work

cdef struct Instruction:
    Kernel kernel
    int64_t first_pointer
    int64_t first_argument
    int64_t units
    int64_t grain_size
    int64_t cost_ns
    double pace  # time by the clock for the estimated one, where it was last measured; 0: never
    int64_t first_member
    int64_t members  # 0: the launch is one call; otherwise a unit is a grain of one of the members

cdef struct Member:
    int64_t first  # grains of the members before it
    int64_t units
    int64_t grain_size
    int64_t first_pointer
    int64_t first_argument

cdef struct Pointer:
    int64_t slot
    int64_t offset

cdef class Instructions(Executable):
    cdef Instruction* code
    cdef Pointer* pointers
    cdef int64_t* arguments
    cdef Member* members
    cdef Py_ssize_t count, pointer_count, argument_count, member_count
    cdef Py_ssize_t code_room, pointer_room, argument_room, member_room
    cdef readonly Py_ssize_t slot_count
    cdef int64_t cost_ns
    cdef int64_t shared_cost_ns
    cdef readonly int running
    cdef readonly list held

    cdef Py_ssize_t add(self, uintptr_t function, Py_ssize_t pointers, Py_ssize_t arguments,
                        int64_t units, int64_t grain_size, int64_t cost_ns) except -1
    cdef int append_words(self, Code code, bint final, int64_t* words, Py_ssize_t pointers, Py_ssize_t arguments,
                          int64_t units, int64_t grain_size, int64_t cost_ns) except -1
    cdef int join_words(self, int64_t* words, Py_ssize_t pointers, Py_ssize_t arguments,
                        int64_t units, int64_t grain_size, int64_t cost_ns) except -1
    cdef Py_ssize_t join_member(self, Py_ssize_t pointers, Py_ssize_t arguments,
                                int64_t units, int64_t grain_size, int64_t cost_ns) except -1
    cdef int copy_words(self, Py_ssize_t at, Py_ssize_t first, int64_t* words, Py_ssize_t pointers,
                        Py_ssize_t arguments) except -1
    cdef int set_pointer(self, Py_ssize_t index, int64_t slot, int64_t offset) except -1
    cpdef int patch_units(self, Py_ssize_t index, int64_t units, int64_t cost_ns=*) except -1
    cdef int add_member(self, Instruction* launch, Py_ssize_t pointers, Py_ssize_t arguments,
                        int64_t units, int64_t grain_size) except -1
    cdef int _check_idle(self) except -1
    cdef int _check_index(self, Py_ssize_t index) except -1
    cdef int _count_work(self, Instruction* launch, int sign) except -1

cdef int open_words(object values, Py_buffer* view) except -1
