from cpython.object cimport PyObject
from weft.engine.capi.vectorcall cimport Arguments

cdef extern from "Python.h":
    Arguments PySequence_Fast_ITEMS(object)

# The first word of an argument that is not plain.
cdef enum:
    TENSOR = 7
    SEQUENCE = 8

cdef object composed(object function, Arguments arguments, size_t count, PyObject* names)
