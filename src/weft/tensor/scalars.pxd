cdef extern from "Python.h":
    dict PyObject_GenericGetDict(object, void*)
