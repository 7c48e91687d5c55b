# Tuples of one and two that have been the inputs or edges of a dead node, to be such again. They stay unseen by the
# cyclic collector, and making a node does not count towards its next run: a graph has no cycles that it could break.
#
# `one` and `two` make such tuples; `keep_tuple` takes over the last reference to one, or says that it does not want it.

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from weft.graph.prefetch cimport NEXT, prefetch

cdef extern from "Python.h":
    PyObject* PyTuple_GET_ITEM(PyObject*, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(PyObject*)
    void PyTuple_SET_ITEM(PyObject*, Py_ssize_t, PyObject*)
    void PyObject_GC_UnTrack(void*)

cdef enum:
    MOST_TUPLES = 32768  # of each size

# The reference of the pool becomes the caller's.
cdef extern from *:
    """
    #define weft_adopt(parts) ((PyObject*)(parts))
    """
    tuple adopt "weft_adopt"(PyObject* parts)

cdef bint keep_tuple(PyObject* parts) noexcept
cdef void empty(PyObject* parts, Py_ssize_t size) noexcept

cdef PyObject** _ones
cdef PyObject** _twos
cdef Py_ssize_t _one_count
cdef Py_ssize_t _two_count

cdef inline tuple one(object part):
    global _one_count
    cdef PyObject* parts
    if _one_count == 0:
        return (part,)
    _one_count -= 1
    parts = _ones[_one_count]
    Py_INCREF(part)
    PyTuple_SET_ITEM(parts, 0, <PyObject*>part)
    return adopt(parts)

cdef inline tuple two(object first, object second):
    global _two_count
    cdef PyObject* parts
    if _two_count == 0:
        return (first, second)
    _two_count -= 1
    if _two_count >= NEXT:
        prefetch(<void*>_twos[_two_count - NEXT])
    parts = _twos[_two_count]
    Py_INCREF(first)
    Py_INCREF(second)
    PyTuple_SET_ITEM(parts, 0, <PyObject*>first)
    PyTuple_SET_ITEM(parts, 1, <PyObject*>second)
    return adopt(parts)
