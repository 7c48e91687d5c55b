from cpython.object cimport PyObject

cdef extern from "Python.h":
    ctypedef PyObject* const* Arguments "PyObject* const*"
    ctypedef object (*vectorcallfunc)(object, Arguments, size_t, PyObject*)
    ctypedef object (*ternaryfunc)(object, object, object)
    ctypedef struct PyTypeObject:
        unsigned long tp_flags
        Py_ssize_t tp_vectorcall_offset
        ternaryfunc tp_call
    object PyObject_Vectorcall(object, Arguments, size_t, PyObject*)
    object PyObject_VectorcallMethod(object, Arguments, size_t, PyObject*)
    object PyVectorcall_Call(object, object, object)
    Py_ssize_t PyVectorcall_NARGS(size_t)
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    unsigned long Py_TPFLAGS_METHOD_DESCRIPTOR
    PyTypeObject* Py_TYPE(PyObject*)
    PyObject* _PyType_Lookup(PyTypeObject*, object)
    PyObject* PyDict_GetItem(object, object)
    object PyObject_GenericGetDict(object, void*)
    bint PyFunction_Check(PyObject*)

cdef class Call:
    cdef vectorcallfunc vectorcall
    cdef readonly object hooked

cdef object _enter(object self, Arguments arguments, size_t count, PyObject* names)
