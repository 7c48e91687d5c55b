# What `scheduler`, `fingerprint` and `operand_packing` find equal structure by: a step of a rolling hash over words, and a comparison of
# shapes and params that are equal part by part as a rule, without asking the parts.

from cpython.object cimport Py_EQ, PyObject, PyObject_RichCompareBool

cdef extern from "Python.h":
    bint PyTuple_CheckExact(object)
    Py_ssize_t PyTuple_GET_SIZE(object)
    PyObject* PyTuple_GET_ITEM(object, Py_ssize_t)

cdef inline unsigned long long mix(unsigned long long h, long long x) noexcept:
    h = (h ^ <unsigned long long>x) * <unsigned long long>0x9E3779B97F4A7C15
    return h ^ (h >> 29)

cdef inline bint equal(object one, object other) except -1:
    cdef Py_ssize_t index
    if one is other:
        return True
    if PyTuple_CheckExact(one) and PyTuple_CheckExact(other):
        if PyTuple_GET_SIZE(one) != PyTuple_GET_SIZE(other):
            return False
        for index in range(PyTuple_GET_SIZE(one)):
            if PyTuple_GET_ITEM(one, index) != PyTuple_GET_ITEM(other, index):
                return PyObject_RichCompareBool(one, other, Py_EQ)
        return True
    return PyObject_RichCompareBool(one, other, Py_EQ)
