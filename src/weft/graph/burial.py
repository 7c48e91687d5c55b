# cython: language_level=3
"""Dying without recursion: what a dying part of the graph holds is buried here, and freed by one loop.

A chain of a million nodes dies in constant depth of the C stack.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdlib import realloc
from cython.cimports.weft.graph.burial import Py_REFCNT, PyTuple_CheckExact
from cython.cimports.weft.graph.node import Node
from cython.cimports.weft.graph.prefetch import NEAR, NEXT, prefetch, prefetch_node
from cython.cimports.weft.graph.tuples import keep_tuple

from weft._compiled import require

require(__name__, cython.compiled)

_draining = False
_graveyard = cython.NULL
_buried = 0
_room = 0


@cython.cfunc
@cython.exceptval(check=False)
def bury(child) -> cython.void:
    """Take over a reference of a dying object to another part of the graph."""
    global _graveyard, _buried, _room
    if _buried == _room:
        _room = 2 * _room + 1024
        _graveyard = cython.cast(
            cython.pointer(cython.pointer(PyObject)),
            realloc(_graveyard, _room * cython.sizeof(cython.p_void)),
        )
    Py_INCREF(child)
    _graveyard[_buried] = cython.cast(cython.pointer(PyObject), child)
    _buried += 1


@cython.cfunc
@cython.exceptval(check=False)
def drain() -> cython.void:
    """Free what dying nodes left behind by a loop: a chain of a million nodes dies without recursion."""
    global _draining, _buried
    _draining = True
    while _buried > 0:
        _buried -= 1
        if _buried >= NEAR:
            prefetch_node(_graveyard[_buried - NEAR])
            if isinstance(cython.cast(object, _graveyard[_buried - NEXT]), Node):
                prefetch(
                    cython.cast(cython.p_void, cython.cast(Node, _graveyard[_buried - NEXT]).inputs)
                )
        child: cython.pointer(PyObject) = _graveyard[_buried]
        if Py_REFCNT(child) == 1 and PyTuple_CheckExact(child) and keep_tuple(child):
            continue
        Py_DECREF(cython.cast(object, child))
    _draining = False
