from weft.engine.replay.fingerprint cimport Fingerprint
from weft.engine.replay.look_table cimport LookTable

cdef enum:
    RECENT_ENTRIES = 64  # entries that are found without a dictionary

cdef class CacheCounters:
    cdef public long long noted
    cdef public long long stored
    cdef public long long hits
    cdef public long long evicted

cdef class Admission:
    cdef LookTable states
    cdef public int unseen
    cdef bint admits(self, long long look) except -1
    cdef bint knows(self, long long look) except -1
    cdef int miss(self, long long look) except -1
    cdef int succeed(self, long long look) except -1

cdef class CacheEntry:
    cdef Fingerprint key
    cdef Py_ssize_t nbytes
    cdef long long used  # by the clock of its cache

cdef class Cache:
    cdef readonly str name
    cdef public long long most_bytes
    cdef readonly long long nbytes
    cdef readonly CacheCounters counters
    cdef readonly Admission admission
    cdef dict entries
    cdef list recent
    cdef long long uses
    cdef object __weakref__
    cdef bint admits(self, long long look) except -1
    cdef CacheEntry find(self, Fingerprint key)
    cdef int keep(self, Fingerprint key, CacheEntry entry, Py_ssize_t nbytes) except -1
    cdef int evict(self) except -1
    cdef int drop(self, CacheEntry entry) except -1
