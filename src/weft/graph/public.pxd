from cpython.object cimport PyObject
from weft.graph.rows cimport OpRow

cdef extern from "Python.h":
    ctypedef PyObject* const* Arguments "PyObject* const*"
    ctypedef object (*vectorcallfunc)(object, Arguments, size_t, PyObject*)
    ctypedef object (*ternaryfunc)(object, object, object)
    ctypedef struct PyTypeObject:
        unsigned long tp_flags
        Py_ssize_t tp_vectorcall_offset
        ternaryfunc tp_call
    object PyObject_Vectorcall(object, Arguments, size_t, PyObject*)
    object PyVectorcall_Call(object, object, object)
    Py_ssize_t PyVectorcall_NARGS(size_t)
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    unsigned long Py_TPFLAGS_METHOD_DESCRIPTOR
    PyTypeObject* Py_TYPE(PyObject*)

cdef bint _intercepting
cdef PyTypeObject* _first  # the registered type, as long as there is one

cdef class Public:
    cdef vectorcallfunc vectorcall
    cdef readonly object function
    cdef readonly str record
    cdef OpRow unary
    cdef dict rows  # rows as the function records them last, and as rows of its name

cdef object _enter(object self, Arguments arguments, size_t count, PyObject* names)
cdef object _enter_naming(object self, Arguments arguments, size_t count, PyObject* names)
