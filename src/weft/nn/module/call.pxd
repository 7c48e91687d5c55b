from cpython.object cimport PyObject
from weft.engine.capi.vectorcall cimport Arguments, PyTypeObject, vectorcallfunc

cdef extern from "Python.h":
    object PyObject_VectorcallMethod(object, Arguments, size_t, PyObject*)
    PyObject* _PyType_Lookup(PyTypeObject*, object)
    PyObject* PyDict_GetItem(object, object)
    object PyObject_GenericGetDict(object, void*)
    bint PyFunction_Check(PyObject*)

cdef class Call:
    cdef vectorcallfunc vectorcall
    cdef readonly object hooked

cdef object _enter(object self, Arguments arguments, size_t count, PyObject* names)
