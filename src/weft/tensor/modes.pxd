from cpython.object cimport PyObject
from weft.engine.ir.mode cimport Mode

cdef extern from "Python.h":
    ctypedef object (*vectorcallfunc)(PyObject*, PyObject**, size_t, PyObject*)
    ctypedef struct PyTypeObject:
        vectorcallfunc tp_vectorcall
    Py_ssize_t PyVectorcall_NARGS(size_t)

cdef class Switch:
    cdef readonly bint grad
    cdef unsigned long long previous
    cdef Mode owner
    cdef int depth
    cdef dict others

cdef class no_grad(Switch):
    pass

cdef class enable_grad(Switch):
    pass
