from cpython.object cimport PyObject
from weft.engine.capi.vectorcall cimport Arguments

cdef extern from "Python.h":
    Arguments PySequence_Fast_ITEMS(object)

cdef object composed(object function, dict known, Arguments arguments, size_t count, PyObject* names)
