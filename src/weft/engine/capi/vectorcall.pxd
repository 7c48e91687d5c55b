# Objects that are called without a tuple of arguments: what Python's C interface has for them, and `take_calls`, which
# gives a class its entry. An instance names the function to enter in its field `vectorcall`.

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
    object PyVectorcall_Call(object, object, object)
    Py_ssize_t PyVectorcall_NARGS(size_t)
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    unsigned long Py_TPFLAGS_METHOD_DESCRIPTOR
    PyTypeObject* Py_TYPE(PyObject*)

# Let calls and method calls of a class go to the function in that field of an instance, of which one is shown.
cdef inline void take_calls(object kind, object probe, vectorcallfunc* field) noexcept:
    cdef PyTypeObject* slots = <PyTypeObject*><PyObject*>kind
    slots.tp_vectorcall_offset = <char*>field - <char*><PyObject*>probe
    slots.tp_call = PyVectorcall_Call
    slots.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR
