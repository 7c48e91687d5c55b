cdef struct Look:
    long long look
    long long state  # one more than it; 0 where the place is free

# Places by hash, at most half of them taken.
cdef struct Generation:
    Look* places
    Py_ssize_t room
    Py_ssize_t count

cdef class LookTable:
    cdef Generation young
    cdef Generation old
    cdef readonly Py_ssize_t half
    cpdef long long get(self, long long look) except? -1
    cpdef int put(self, long long look, long long state) except -1
    cdef int add(self, long long look, long long state) except -1
    cdef int resize(self, Py_ssize_t room) except -1
    cdef int grow_old(self) except -1
