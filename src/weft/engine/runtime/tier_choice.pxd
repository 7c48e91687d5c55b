from weft.engine.devices.tuning cimport Tiering
from weft.engine.ir.node cimport Node
from weft.engine.pipeline.fingerprint cimport FlushFingerprint

cdef struct Estimate:
    # What running some nodes takes in each tier, in nanoseconds beyond their arithmetic.
    double first_ns  # node by node, where their sizes have never come
    double again_ns  # node by node, where they have
    double schedule_ns  # scheduling them
    double known_ns  # as a program that is known

cdef class TierCounters:
    cdef long long interpreted
    cdef double lost_ns
    cdef long long scheduled
    cdef double scheduled_ns
    cdef long long repaid

cdef class Debt:
    # What scheduling a program has cost, less what each of its runs has spared.
    cdef double owed_ns
    cdef double spared_ns

    cdef void run(self) noexcept

cdef void begin(Estimate* estimate, Tiering tuning) noexcept
cdef void weigh(Estimate* estimate, Node node, Tiering tuning) noexcept
cdef Estimate estimate_of(list nodes) noexcept
cdef double spared_ns(Estimate* estimate) noexcept
cpdef int recurrence(FlushFingerprint fingerprint) except -1
cdef double lost_ns(FlushFingerprint fingerprint) except? -1
cdef int note_interpreted(FlushFingerprint fingerprint, double lost) except -1
cdef int add_lost(FlushFingerprint fingerprint, double lost) except -1
cdef Debt debt_of(list nodes)
