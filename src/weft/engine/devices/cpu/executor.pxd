from libc.stdint cimport int64_t, uintptr_t
from weft.engine.devices.api cimport Executable, Queue
from weft.engine.devices.cpu.instructions cimport Instruction, Instructions, Member
from weft.engine.devices.cpu.threads cimport Kernel, Team
from weft.engine.devices.trace cimport TraceEvent

cdef enum:
    PIECE_WORK = 5000  # ns of work that a piece has at least
    SPLIT_AWAKE = 10000  # ns of work from which an instruction is shared out with workers that are awake
    PIECES_PER_THREAD = 2  # each piece of a product packs its operands anew
    ALONE_BELOW = 2000000  # ns of work of a thread up to which it has one piece
    ROUSE_ABOVE = 200000  # ns of shared work for which the workers are woken ahead
    RELEASE_ABOVE = 20000  # ns of work for which the GIL is released
    CLOCK_EVERY = 20000  # ns of estimated work between two looks at the clock
    CLOCK_LAUNCHES = 2000  # ns that a launch counts for there, estimates being what they are
    POLL_EVERY = 10000000  # ns between two looks for signals
    SLICE_ABOVE = 5000000  # ns of estimated work from which an instruction runs in slices
    SLICE_FIRST = 200000  # ns of estimated work in its first slice: it may take a hundred times as long
    SLICE_WANTED = 10000000  # ns that a slice should take
    SLICE_GROWTH = 16  # times as long as the one before a slice is at most

cdef struct GroupedLaunch:
    # A launch over a table of members, as its kernel gets to see it.
    Kernel kernel
    void** resolved
    int64_t* arguments
    Member* members
    int64_t count

cdef class CpuExecutable(Instructions):
    cdef void** resolved
    cdef Py_ssize_t resolved_room
    cdef Py_ssize_t protected  # one more than the first instruction behind which signals wait; 0: none
    cdef Py_ssize_t spilled  # bytes of the spill file that a run needs

    cdef Py_ssize_t run_addresses(self, uintptr_t* slots, Py_ssize_t slot_count,
                                  Py_ssize_t start, bint uninterruptible) except -1
    cdef Py_ssize_t _execute(self, void** resolved, Py_ssize_t start, bint poll,
                             Team* team, TraceEvent* events, void** raised) noexcept nogil
    cdef bint _run_slices(self, Instruction* launch, void** resolved, Team* team, void** raised) noexcept nogil

cdef class ThreadQueue(Queue):
    pass

cdef bint flushes_subnormals(Py_ssize_t salt) noexcept nogil
