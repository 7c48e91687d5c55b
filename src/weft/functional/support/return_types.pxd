# What Python's C interface has for tuples with named members ("struct sequences").

cdef extern from "Python.h":
    ctypedef struct PyStructSequence_Field:
        const char* name
        const char* doc
    ctypedef struct PyStructSequence_Desc:
        const char* name
        const char* doc
        PyStructSequence_Field* fields
        int n_in_sequence
    object PyStructSequence_NewType(PyStructSequence_Desc*)
