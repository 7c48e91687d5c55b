# cython: language_level=3
"""Tuples that wait to be the inputs or edges of a node again.

In come tuples whose last holder has died; `one` and `two` in the .pxd hand them out again.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.ref import Py_DECREF
from cython.cimports.libc.stdlib import calloc
from cython.cimports.weft.graph.tuples import (
    MOST_TUPLES,
    PyObject_GC_UnTrack,
    PyTuple_GET_ITEM,
    PyTuple_GET_SIZE,
    PyTuple_SET_ITEM,
)

from weft._compiled import require

require(__name__, cython.compiled)

_one_count = 0
_two_count = 0
_ones = cython.cast(
    cython.pointer(cython.pointer(PyObject)), calloc(MOST_TUPLES, cython.sizeof(cython.p_void))
)
_twos = cython.cast(
    cython.pointer(cython.pointer(PyObject)), calloc(MOST_TUPLES, cython.sizeof(cython.p_void))
)
if _ones == cython.NULL or _twos == cython.NULL:
    raise MemoryError


@cython.cfunc
@cython.exceptval(check=False)
def keep_tuple(parts: cython.pointer(PyObject)) -> cython.bint:
    """Empty a tuple and keep it, the caller's being the only reference to it; whether it is of a size that is kept."""
    global _one_count, _two_count
    size: cython.Py_ssize_t = PyTuple_GET_SIZE(parts)
    if size == 2 and _two_count < MOST_TUPLES:
        empty(parts, 2)
        _twos[_two_count] = parts
        _two_count += 1
        return True
    if size == 1 and _one_count < MOST_TUPLES:
        empty(parts, 1)
        _ones[_one_count] = parts
        _one_count += 1
        return True
    return False


@cython.cfunc
@cython.exceptval(check=False)
def empty(parts: cython.pointer(PyObject), size: cython.Py_ssize_t) -> cython.void:
    """Take everything out of a tuple that nobody else knows."""
    index: cython.Py_ssize_t
    PyObject_GC_UnTrack(parts)
    for index in range(size):
        part: cython.pointer(PyObject) = PyTuple_GET_ITEM(parts, index)
        PyTuple_SET_ITEM(parts, index, cython.NULL)
        Py_DECREF(cython.cast(object, part))
