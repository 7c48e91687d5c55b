# Tuples of one to three that have been the inputs or edges of a dead node, to be such again. They stay unseen by the
# cyclic collector, and making a node does not count towards its next run: a graph has no cycles that it could break.
#
# `one`, `two` and `three` make such tuples; `keep_tuple` takes over the last reference to one, or says that it does not want it.

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from weft.engine.ir.free_list cimport FreeList, take

cdef extern from "Python.h":
    PyObject* PyTuple_GET_ITEM(PyObject*, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(PyObject*)
    void PyTuple_SET_ITEM(PyObject*, Py_ssize_t, PyObject*)
    void PyObject_GC_UnTrack(void*)

cdef bint keep_tuple(PyObject* parts) noexcept
cdef void empty(PyObject* parts, Py_ssize_t size) noexcept

cdef FreeList _ones
cdef FreeList _twos
cdef FreeList _threes

cdef inline tuple one(object part):
    if _ones.count == 0:
        return (part,)
    cdef tuple parts = <tuple>take(&_ones)
    put(parts, 0, part)
    return parts

cdef inline tuple two(object first, object second):
    if _twos.count == 0:
        return (first, second)
    cdef tuple parts = <tuple>take(&_twos)
    put(parts, 0, first)
    put(parts, 1, second)
    return parts

cdef inline tuple three(object first, object second, object third):
    if _threes.count == 0:
        return (first, second, third)
    cdef tuple parts = <tuple>take(&_threes)
    put(parts, 0, first)
    put(parts, 1, second)
    put(parts, 2, third)
    return parts

cdef inline void put(tuple parts, Py_ssize_t index, object part) noexcept:
    Py_INCREF(part)
    PyTuple_SET_ITEM(<PyObject*>parts, index, <PyObject*>part)
