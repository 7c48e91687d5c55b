from cpython.object cimport PyObject
from weft.engine.capi.vectorcall cimport Arguments

cdef extern from "Python.h":
    Arguments PySequence_Fast_ITEMS(object)

# What the word of an argument begins with, beside what is plain.
cdef enum:
    TENSOR = 7
    SEQUENCE = 8

cdef object composed(object function, Arguments arguments, size_t count, PyObject* names)
