from cpython.object cimport PyObject

cdef extern from "Python.h":
    ctypedef struct PySequenceMethods:
        void* sq_inplace_concat
    ctypedef struct PyTypeObject:
        const char* tp_name
        PySequenceMethods* tp_as_sequence
        void* tp_dict
        Py_ssize_t tp_dictoffset
        unsigned long tp_flags
    unsigned long Py_TPFLAGS_BASETYPE
    void PyType_Modified(PyTypeObject*)
    void Py_SET_TYPE(PyObject*, PyTypeObject*)
    void Py_INCREF(object)
    void Py_DECREF(object)
