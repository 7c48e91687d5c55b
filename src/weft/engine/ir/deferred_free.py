# cython: language_level=3
"""Iterative deallocation: nodes that die defer their children to a queue that one loop drains.

A chain of a million nodes dies in constant depth of the C stack. When many objects have died at once, the free list is
sorted by address: the passes over the next graph then read memory in one direction.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdlib import calloc, free, realloc
from cython.cimports.libc.string import memmove
from cython.cimports.weft.engine.ir.deferred_free import (
    FEWEST_SORTED,
    POOLS,
    SPARSE_WORDS,
    STEP_BITS,
    Py_REFCNT,
    PyTuple_CheckExact,
    lowest_bit,
)
from cython.cimports.weft.engine.ir.free_list import FreeList
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.prefetch import prefetch
from cython.cimports.weft.engine.ir.tuple_cache import (
    PyTuple_GET_ITEM,
    PyTuple_GET_SIZE,
    _ones,
    _threes,
    _twos,
    keep_tuple,
)

from weft._build.compiled import require

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
_pool_count = 0
_map = _map_of_words = cython.NULL
_map_room = 0


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
    """Free deferred children in a loop, first in, first out, so that each can be prefetched before it is freed."""
    global _draining, _first, _buried
    child: cython.pointer(PyObject)
    index: cython.Py_ssize_t
    _draining = True
    while _first < _buried:
        _look_ahead()
        child = _graveyard[_first]
        _first += 1
        if Py_REFCNT(child) == 1 and PyTuple_CheckExact(child) and keep_tuple(child):
            continue
        Py_DECREF(cython.cast(object, child))
    _first = _buried = 0
    for index in range(_pool_count):
        if _pools[index].count - _pools[index].ordered >= FEWEST_SORTED:
            _arrange(_pools[index])
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


# -- in order of address -----------------------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(check=False)
def keep_in_order(waiting: cython.pointer(FreeList)) -> cython.void:
    """From now on, put what waits here in order of address whenever a crowd of it has died."""
    global _pool_count
    if _pool_count < POOLS:
        _pools[_pool_count] = waiting
        _pool_count += 1


keep_in_order(cython.address(_ones))
keep_in_order(cython.address(_twos))
keep_in_order(cython.address(_threes))


@cython.cfunc
@cython.exceptval(check=False)
def _arrange(waiting: cython.pointer(FreeList)) -> cython.void:
    """Sort the objects that died since the last time, the lowest address to be handed out first, by a bitmap of their
    addresses and a bitmap of its words: two passes, and no comparison."""
    start: cython.Py_ssize_t = waiting.ordered
    count: cython.Py_ssize_t = waiting.count - start
    objects: cython.pointer(cython.size_t) = cython.cast(
        cython.pointer(cython.size_t), waiting.objects + start
    )
    lowest: cython.size_t = objects[0]
    highest: cython.size_t = lowest
    one: cython.ulonglong = 1
    index: cython.Py_ssize_t
    place: cython.size_t
    for index in range(count):
        lowest = min(lowest, objects[index])
        highest = max(highest, objects[index])
    waiting.ordered = waiting.count
    words: cython.Py_ssize_t = (((highest - lowest) >> STEP_BITS) >> 6) + 1
    if words > count * SPARSE_WORDS or not _make_maps(words):
        return
    for index in range(count):
        place = (objects[index] - lowest) >> STEP_BITS
        _map[place >> 6] |= one << (place & 63)
        _map_of_words[place >> 12] |= one << (place >> 6 & 63)
    _read_maps(objects, count, lowest, words)


@cython.cfunc
@cython.exceptval(check=False)
def _read_maps(
    objects: cython.pointer(cython.size_t),
    count: cython.Py_ssize_t,
    lowest: cython.size_t,
    words: cython.Py_ssize_t,
) -> cython.void:
    """Write what the maps show, the lowest address last, and clear them."""
    upper: cython.Py_ssize_t
    bits: cython.ulonglong
    for upper in range((words >> 6) + 1):
        filled: cython.ulonglong = _map_of_words[upper]
        _map_of_words[upper] = 0
        while filled != 0:
            word: cython.size_t = upper * 64 + lowest_bit(filled)
            filled &= filled - 1
            bits = _map[word]
            _map[word] = 0
            while bits != 0:
                count -= 1
                objects[count] = lowest + ((word * 64 + lowest_bit(bits)) << STEP_BITS)
                bits &= bits - 1


@cython.cfunc
@cython.exceptval(check=False)
def _make_maps(words: cython.Py_ssize_t) -> cython.bint:
    """Make room for a bitmap of `words` words, all zero, and for a bitmap of these words; False if there is no
    memory."""
    global _map, _map_of_words, _map_room
    if words > _map_room:
        free(_map)
        _map_room = 0
        count: cython.size_t = words + (words >> 6) + 1
        _map = cython.cast(
            cython.pointer(cython.ulonglong), calloc(count, cython.sizeof(cython.ulonglong))
        )
        if _map == cython.NULL:
            return False
        _map_of_words, _map_room = _map + words, words
    return True
