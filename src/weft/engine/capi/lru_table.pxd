cdef class LruTable:
    cdef object _entries
    cdef public Py_ssize_t most
    cpdef object get(self, object key)
    cpdef void put(self, object key, object value) except *
    cdef void _forget(self) except *
