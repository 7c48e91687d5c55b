from cpython.object cimport PyObject

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject*)

cdef class Plan:
    cdef public dict slots
    cdef public list external
    cdef public list sizes
    cdef public set kept
    cdef public set in_place
    cdef public set viewed
    cdef public dict last_use
    cdef dict last_reader
    cdef public int overwriting

cdef bint _reuse
