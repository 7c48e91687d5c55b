from weft.engine.ir.node cimport Node

cdef enum:
    NUMBERS = 1024  # places for numbers from outside; half of them are used

cdef struct Number:
    long long stamp
    long long kind
    long long bits
    long long index

cdef class Signature:
    cdef readonly long long hash
    cdef readonly list nodes
    cdef readonly list external
    cdef readonly bint live
    cdef readonly bint complete
    cdef readonly bint tracked
    cdef long long* words
    cdef Py_ssize_t count
    cdef Py_ssize_t room

    cdef int reserve(self, Py_ssize_t more) except -1

cdef class Record:
    cdef bytes words
    cdef list details

    cpdef bint matches(self, Signature other) except -1

cpdef Signature signature(list nodes, bint batched=*)

cdef long long _stamp

# What the numbers of a new signature, or program, are marked with in `Node.index`.
cdef inline long long next_stamp() noexcept:
    global _stamp
    _stamp += 1
    return _stamp

cdef dict _others
cdef Number _numbers[NUMBERS]
cdef Py_ssize_t _numbered
