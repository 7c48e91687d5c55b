cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        void* tp_dict
        Py_ssize_t tp_dictoffset
    void PyType_Modified(PyTypeObject*)
