cdef extern from "Python.h":
    dict PyObject_GenericGetDict(object, void*)
    int PyObject_GenericSetDict(object, object, void*) except -1
