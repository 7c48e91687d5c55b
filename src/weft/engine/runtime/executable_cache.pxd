from libc.stdint cimport uintptr_t
from weft.engine.devices.api cimport Device, Executable
from weft.engine.devices.trace cimport Labels
from weft.engine.pipeline.fingerprint cimport FlushFingerprint
from weft.engine.replay.cache cimport CacheEntry
from weft.engine.runtime.tier_choice cimport Debt

cdef struct Commit:
    # What becomes of node number `node`: a place in a slot (-1: nothing is kept).
    Py_ssize_t node
    Py_ssize_t slot
    long long offset
    bint checkpoint  # it keeps its inputs

cdef class CachedExecutable(CacheEntry):
    cdef Device device
    cdef readonly Executable executable
    cdef readonly int launches
    cdef readonly int kernels
    cdef Py_ssize_t source_count, size_count, commit_count, checked
    cdef Py_ssize_t* sources
    cdef Py_ssize_t* sizes
    cdef Py_ssize_t* offsets  # of slots in the arena, -1 for those that are buffers of their own
    cdef Py_ssize_t* hosts  # the values from outside whose memory slots take over, or -1
    cdef Py_ssize_t arena  # bytes of the arena; 0 if there is none
    cdef Py_ssize_t need  # bytes of the budget that all of them take
    cdef object layout
    cdef Commit* commits
    cdef uintptr_t* addresses
    cdef bint busy
    cdef readonly bint narrow  # of a graph that is too narrow for batches
    cdef list strides
    cdef list in_place
    cdef list blocks  # values that it reads as one, by how their rows lie (`runtime.blocks`)
    cdef list constants  # numbers that stand behind the values from outside
    cdef list tables
    cdef object held
    cdef Labels labels
    cdef list awaited  # kernels with which it would be scheduled anew, or None
    cdef double apart_ns  # that a run takes longer without them
    cdef double owed_ns  # until that has come to what compiling them takes
    cdef Debt debt

    cdef int make_room(self) except -1

cpdef CachedExecutable lookup(FlushFingerprint fingerprint)
cpdef bint usable(CachedExecutable template, FlushFingerprint fingerprint) except -1
cpdef object run_cached(CachedExecutable template, FlushFingerprint fingerprint)
