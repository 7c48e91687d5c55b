from cpython.object cimport PyObject
from weft.engine.ir.node cimport Node
from weft.engine.ir.primitive cimport Primitive

cdef extern from "Python.h":
    PyObject* PyList_GET_ITEM(list, Py_ssize_t)

cdef enum:
    MOST_ARGUMENTS = 16  # of a derivative rule, at most

cdef class At:
    cdef readonly object params
    cdef readonly tuple shapes
    cdef readonly tuple shape

cdef list vjp_single(Node node, object g, bint create)
cdef list vjp_rules(Primitive op, object g, At at, list inputs, object result, tuple edges)
