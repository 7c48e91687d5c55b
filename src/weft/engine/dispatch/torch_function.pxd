from cpython.object cimport PyObject
from weft.engine.capi.vectorcall cimport Arguments, PyTypeObject

cdef extern from "Python.h":
    unsigned long Py_TPFLAGS_HEAPTYPE
    unsigned long Py_TPFLAGS_LIST_SUBCLASS
    unsigned long Py_TPFLAGS_TUPLE_SUBCLASS
    PyObject* _PyType_Lookup(PyTypeObject*, object)

cdef bint intercepting  # true if there are registered types or modes

cdef object intercepted(object public, Arguments arguments, size_t count, PyObject* names)
cdef bint answers(PyObject* value) noexcept
cdef bint answers_within(object index) noexcept
cdef bint has_answering(Arguments arguments, size_t count, PyObject* names) noexcept
cdef object answered(object public, Arguments arguments, size_t count, PyObject* names)
cdef tuple collected(Arguments arguments, Py_ssize_t given, PyObject* names)
