from cpython.object cimport PyObject
from weft.graph.node cimport Node
from weft.schedule.records cimport Value

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject*)

cdef class Plan:
    cdef readonly dict places
    cdef public list external
    cdef public list sizes
    cdef public set kept
    cdef public set in_place
    cdef public set viewed
    cdef list used
    cdef public int overwriting

cdef bint _reuse
cdef Value value_of(Plan plan, Node node)
