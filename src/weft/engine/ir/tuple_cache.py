# cython: language_level=3
"""A free list of small tuples, which become the inputs or edges of nodes again.

It takes tuples whose last holder has died; `one`, `two` and `three` in the .pxd hand them out.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.ref import Py_DECREF
from cython.cimports.weft.engine.ir.free_list import COLLECTOR, ROOM, FreeList, keep
from cython.cimports.weft.engine.ir.tuple_cache import (
    PyObject_GC_UnTrack,
    PyTuple_GET_ITEM,
    PyTuple_GET_SIZE,
    PyTuple_SET_ITEM,
)

from weft._build.compiled import require

require(__name__, cython.compiled)

_ones.room = _twos.room = _threes.room = ROOM
_ones.before = _twos.before = _threes.before = COLLECTOR
_ones.size = _twos.size = _threes.size = 48


@cython.cfunc
@cython.exceptval(check=False)
def keep_tuple(parts: cython.pointer(PyObject)) -> cython.bint:
    """Empty a tuple and keep it, the caller's being the only reference to it; whether it is of a size that is kept."""
    size: cython.Py_ssize_t = PyTuple_GET_SIZE(parts)
    if size < 1 or size > 3:
        return False
    waiting: cython.pointer(FreeList) = cython.address(_threes)
    if size == 1:
        waiting = cython.address(_ones)
    elif size == 2:
        waiting = cython.address(_twos)
    if waiting.count == waiting.room:
        return False
    empty(parts, size)
    keep(waiting, parts)
    return True


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
