from weft.engine.capi.growable_array cimport Array
from weft.engine.devices.trace cimport NodeTimes
from weft.engine.ir.memory cimport OwnedMemory
from weft.engine.ir.node cimport Node
from weft.engine.runtime.tier_choice cimport Estimate

cdef class Interpretation:
    cdef list order
    cdef list rows  # members of batches among the nodes
    cdef Array operands
    cdef bint runs
    cdef bint can_run
    cdef bint batched  # there are rows of batches among the nodes
    cdef Estimate estimate
    cdef Py_ssize_t missed
    cdef Py_ssize_t most_misses
    cdef NodeTimes times  # None while nobody records

    cdef double gain_ns(self, int comes, double lost_ns) noexcept
    cdef int hold(self, Node node) except -1
    cdef Node operand(self, Py_ssize_t number)
    cdef bint release(self) noexcept
    cdef void free(self) noexcept
    cdef void go_on(self) noexcept
    cdef void keep_batches(self) noexcept
    cdef void stop(self) noexcept

cdef bint take_view(Node node)
cdef bint take_row(Node node)
cdef bint may_overwrite(Node node)
cdef void commit(Node node, OwnedMemory buffer, long long offset, tuple strides)
