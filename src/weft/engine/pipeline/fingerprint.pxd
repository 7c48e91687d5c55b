from weft.engine.ir.node cimport Node
from weft.engine.replay.fingerprint cimport Fingerprint

cdef enum:
    GROUPING = -1  # the variant of a search for batches: with all that the search looks at
    NUMBER_SLOTS = 1024  # slots of the hash table for numbers from outside; half of them are used
    SINGLE_NODE = 2  # the variants of fingerprints of single nodes: with what their memory plan says they may overwrite

cdef struct Number:
    long long stamp
    long long kind
    long long bits
    long long index

# How the structure of a flush comes: never before, long after the last time, soon after it, or to go on coming.
cdef enum:
    NEW = 0
    SELDOM = 1
    SOON = 2
    LASTING = 3

cdef class FlushFingerprint:
    cdef readonly Fingerprint key
    cdef readonly list nodes
    cdef readonly list external
    cdef readonly bint live
    cdef readonly bint complete
    cdef readonly long long tracked  # the sequence number of the first record that no search has seen, or 0
    cdef bint narrow  # a search has found the graph too narrow for batches
    cdef readonly int variant
    cdef Py_ssize_t given  # how many nodes there were, before members of batches were appended
    cdef dict places  # of a search: edge target, or buffer, by its address -> number (and base offset of a buffer)
    cdef dict rows  # of a search: params of views that are rows of values -> number; their memory -> the first

cpdef FlushFingerprint fingerprint_of(list nodes, int variant=*)

cdef long long _stamp

# What the numbers of a new signature, or program, are marked with in `Node.index`.
cdef inline long long next_stamp() noexcept:
    global _stamp
    _stamp += 1
    return _stamp

cdef dict _others
cdef Number _numbers[NUMBER_SLOTS]
cdef Py_ssize_t _numbered
