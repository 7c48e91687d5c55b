cimport cython
from libc.stdint cimport int64_t, uintptr_t
from weft.engine.ir.memory cimport OwnedMemory


cdef enum:
    CLASSES = 320
    SLAB_BYTES = 32768  # bytes up to which blocks are carved from slabs and never returned
    SLAB = 1048576
    PAGE = 4096
    HUGE_PAGE = 2097152
    SECOND = 1000000000  # in ns, and the time between two looks for idle blocks
    MOST_TIMES_LARGER = 4  # than what a program needs: the block kept for arenas that it may have
    CELL_BYTES = 16  # bytes of the longest number
    # In place of a size class: the buffer is a mapping of its own, for bytes, or for numbers each with a guard.
    GUARDED = -1
    GUARDED_CELLS = -2
    ARENA = -3  # or the block is kept apart from the classes, for arenas


cdef struct SizeClass:
    # The free blocks of one size, most recently freed last, and when each was freed.
    uintptr_t* blocks
    int64_t* freed_at
    Py_ssize_t free
    Py_ssize_t room
    Py_ssize_t live


cdef SizeClass[CLASSES] _classes
cdef Py_ssize_t _live  # bytes of the blocks that are handed out
cdef Py_ssize_t _budget  # bytes that there may be; 0: no bound


@cython.final
cdef class PooledBuffer(OwnedMemory):
    pass


cpdef PooledBuffer allocate(Py_ssize_t nbytes)
cdef PooledBuffer allocate_arena(Py_ssize_t nbytes)
cpdef PooledBuffer allocate_cells(Py_ssize_t count)
cdef uintptr_t cell(PooledBuffer cells, Py_ssize_t index, Py_ssize_t itemsize) noexcept
cpdef PooledBuffer wrap(uintptr_t address, Py_ssize_t nbytes, object owner, bint readonly=*)
cpdef PooledBuffer take_over(PooledBuffer buffer)
cpdef Py_ssize_t arena_capacity_of(Py_ssize_t nbytes) except -1
cpdef Py_ssize_t capacity_of(Py_ssize_t nbytes) except -1

# Bytes that may still be handed out under the budget.
cdef inline Py_ssize_t room_left() noexcept:
    return _budget - _live
