from cpython.long cimport PyLong_AsLongLongAndOverflow

# Whether a Python int lies between -limit and limit, or is one of them. (Comparing it would make objects of both.)
cdef inline bint is_within(object number, long long limit) noexcept:
    cdef int overflow = 0
    cdef long long found = PyLong_AsLongLongAndOverflow(number, &overflow)
    return overflow == 0 and -limit <= found <= limit
