# cython: language_level=3
"""Dying without recursion: what a dying part of the graph holds is buried here, and freed by one loop.

A chain of a million nodes dies in constant depth of the C stack.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdlib import realloc
from cython.cimports.libc.string import memmove
from cython.cimports.weft.graph.burial import Py_REFCNT, PyTuple_CheckExact
from cython.cimports.weft.graph.node import Node
from cython.cimports.weft.graph.prefetch import prefetch
from cython.cimports.weft.graph.tuples import PyTuple_GET_ITEM, PyTuple_GET_SIZE, keep_tuple

from weft._compiled import require

require(__name__, cython.compiled)

# Steps ahead at which what is freed is asked for; its parts; what these hold. A step here does less than one of a pass.
_FAR = cython.declare(cython.int, 12)
_NEAR = cython.declare(cython.int, 8)
_NEXT = cython.declare(cython.int, 4)

_draining = False
_graveyard = cython.NULL
_first = 0
_buried = 0
_room = 0


@cython.cfunc
@cython.exceptval(check=False)
def bury(child) -> cython.void:
    """Take over a reference of a dying object to another part of the graph."""
    global _buried
    if _buried == _room:
        _make_room()
    Py_INCREF(child)
    _graveyard[_buried] = cython.cast(cython.pointer(PyObject), child)
    _buried += 1


@cython.cfunc
@cython.exceptval(check=False)
def _make_room() -> cython.void:
    """Close the gap of what has been freed where it is large, or else let the graveyard grow."""
    global _graveyard, _first, _buried, _room
    if _first > _room // 2:
        _buried -= _first
        memmove(_graveyard, _graveyard + _first, _buried * cython.sizeof(cython.p_void))
        _first = 0
        return
    _room = 2 * _room + 1024
    _graveyard = cython.cast(
        cython.pointer(cython.pointer(PyObject)),
        realloc(_graveyard, _room * cython.sizeof(cython.p_void)),
    )


@cython.cfunc
@cython.exceptval(check=False)
def drain() -> cython.void:
    """Free what dying nodes left behind by a loop: a chain of a million nodes dies without recursion. The first that
    was buried is the first to be freed, so that there is time to ask for it."""
    global _draining, _first, _buried
    child: cython.pointer(PyObject)
    _draining = True
    while _first < _buried:
        _look_ahead()
        child = _graveyard[_first]
        _first += 1
        if Py_REFCNT(child) == 1 and PyTuple_CheckExact(child) and keep_tuple(child):
            continue
        Py_DECREF(cython.cast(object, child))
    _first = _buried = 0
    _draining = False


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _look_ahead() -> cython.void:
    """Ask for what is freed soon: a tuple, then the nodes in it, then the tuples that these will leave behind."""
    if _first + _FAR >= _buried:
        return
    soon: cython.p_char = cython.cast(cython.p_char, _graveyard[_first + _FAR])
    prefetch(soon - 16)
    prefetch(soon + 40)
    child: cython.pointer(PyObject) = _graveyard[_first + _NEAR]
    index: cython.Py_ssize_t
    if PyTuple_CheckExact(child):
        for index in range(min(PyTuple_GET_SIZE(child), 3)):
            soon = cython.cast(cython.p_char, PyTuple_GET_ITEM(child, index))
            prefetch(soon)
            prefetch(soon + 64)
            prefetch(soon + 128)
            prefetch(soon + 192)
    child = _graveyard[_first + _NEXT]
    if PyTuple_CheckExact(child):
        for index in range(min(PyTuple_GET_SIZE(child), 3)):
            _ask_for_inputs(PyTuple_GET_ITEM(child, index))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _ask_for_inputs(part: cython.pointer(PyObject)) -> cython.void:
    if isinstance(cython.cast(object, part), Node):
        prefetch(cython.cast(cython.p_void, cython.cast(Node, part).inputs))
