from libc.stdint cimport int64_t, uintptr_t
from weft.engine.devices.tuning cimport Record, Tuning
from weft.engine.ir.memory cimport OwnedMemory
from weft.engine.ir.node cimport Node

cdef class Capabilities(Record):
    cdef readonly long long longest_row
    cdef readonly long long scratch_margin
    cdef readonly long long alignment
    cdef readonly bint calls_kernels

cdef class Memory:
    cdef readonly int device

    cpdef OwnedMemory allocate(self, Py_ssize_t nbytes)
    cdef OwnedMemory allocate_cells(self, Py_ssize_t count)
    cdef uintptr_t cell(self, OwnedMemory cells, Py_ssize_t index, Py_ssize_t itemsize) noexcept
    cdef int publish(self, OwnedMemory cells) except -1
    cdef OwnedMemory allocate_status(self, Py_ssize_t count)
    cdef Py_ssize_t budget(self) noexcept
    cdef Py_ssize_t room_left(self) noexcept
    cdef int write(self, uintptr_t target, const void* source, Py_ssize_t nbytes) except -1
    cdef bint has_failed(self, OwnedMemory status, Py_ssize_t index) except -1

cdef class Code:
    cdef int call(self, void** pointers, int64_t* arguments, int64_t units) except -1
    cdef int call_final(self, void** pointers, int64_t* arguments, int64_t units) except -1

cdef class Executable:
    cdef readonly object interrupt
    cdef int append_words(self, Code code, bint final, int64_t* words, Py_ssize_t pointers, Py_ssize_t arguments,
                          int64_t units, int64_t grain_size, int64_t cost_ns) except -1
    cdef int join_words(self, int64_t* words, Py_ssize_t pointers, Py_ssize_t arguments,
                        int64_t units, int64_t grain_size, int64_t cost_ns) except -1
    cdef Py_ssize_t run_addresses(self, uintptr_t* slots, Py_ssize_t slot_count,
                                  Py_ssize_t start, bint uninterruptible) except -1

cdef class Queue:
    cdef Executable new_executable(self)
    cdef bint flushes_subnormals(self, Py_ssize_t salt) noexcept

cdef class Lowerer:
    cdef long long schedule(self, object encoder) except? -1
    cdef bint ends(self, object encoder) except -1
    cdef bint call(self, Node node, uintptr_t target) except -1
    cpdef object lower(self, object program, object plan)
    cpdef object emit(self, object key, str symbol)
    cpdef object compile(self, list specs)
    cpdef list compile_in_background(self, list specs, double seconds)

cdef class Device:
    cdef readonly str name
    cdef readonly int number
    cdef readonly Capabilities capabilities
    cdef public Tuning tuning
    cdef readonly Memory memory
    cdef Queue _queue
    cdef Lowerer _lowerer

    cdef Queue queue(self)
    cpdef Lowerer lowerer(self)

cdef list DEVICES
cdef bint several  # whether there is more than the default device
cdef bint bounded  # whether the memory of any device has a budget

cdef int note_budgets() except -1

cpdef Device default_device()
cpdef Device device_at(int number)
