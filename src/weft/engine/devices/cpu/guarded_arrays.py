# cython: language_level=3
"""NumPy's arrays in guarded memory, under `WEFT_GUARD`: memory that tensors share with NumPy is guarded, too.

From `install` on, NumPy takes the memory of new arrays from here, by its allocator interface (NEP 49), in the context
of the caller.
"""

import cython
from cython.cimports.cpython.pycapsule import PyCapsule_GetPointer, PyCapsule_New
from cython.cimports.libc.stdint import uint64_t, uintptr_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy, memset, strcpy
from cython.cimports.weft.engine.devices.cpu.guard import map_guarded, unmap_guarded
from cython.cimports.weft.engine.devices.cpu.guarded_arrays import Handler, SetHandler

from weft._build.compiled import require
from weft.config import config

require(__name__, cython.compiled)

_SET_HANDLER = cython.declare(
    cython.Py_ssize_t, 304
)  # the index of PyDataMem_SetHandler in NumPy's table of functions
_HEAD = cython.declare(
    cython.size_t, 16
)  # before an array: its bytes, and whether they are guarded
_at_end = cython.declare(cython.bint, config.guard == "end")
_handler = cython.declare(Handler)


@cython.cfunc
@cython.exceptval(check=False)
def _allocate(context: cython.p_void, nbytes: cython.size_t) -> cython.p_void:
    base: uintptr_t = map_guarded(nbytes + _HEAD, _at_end)
    head: uint64_t[2]
    head[0], head[1] = nbytes, base != 0
    if base == 0:  # no room for more mappings
        base = cython.cast(uintptr_t, malloc(nbytes + _HEAD))
        if base == 0:
            return cython.NULL
    memcpy(cython.cast(cython.p_void, base), head, _HEAD)
    return cython.cast(cython.p_void, base + _HEAD)


@cython.cfunc
@cython.exceptval(check=False)
def _allocate_zeros(
    context: cython.p_void, count: cython.size_t, size: cython.size_t
) -> cython.p_void:
    made: cython.p_void = _allocate(context, count * size)
    if made != cython.NULL:
        memset(made, 0, count * size)
    return made


@cython.cfunc
@cython.exceptval(check=False)
def _size_of(place: cython.p_void) -> cython.size_t:
    head: uint64_t[2]
    memcpy(head, cython.cast(cython.p_void, cython.cast(uintptr_t, place) - _HEAD), _HEAD)
    return head[0]


@cython.cfunc
@cython.exceptval(check=False)
def _resize(
    context: cython.p_void, previous: cython.p_void, nbytes: cython.size_t
) -> cython.p_void:
    made: cython.p_void = _allocate(context, nbytes)
    if made != cython.NULL and previous != cython.NULL:
        memcpy(made, previous, min(nbytes, _size_of(previous)))
        _free(context, previous, 0)
    return made


@cython.cfunc
@cython.exceptval(check=False)
def _free(context: cython.p_void, place: cython.p_void, nbytes: cython.size_t) -> cython.void:
    if place == cython.NULL:
        return
    head: uint64_t[2]
    base: uintptr_t = cython.cast(uintptr_t, place) - _HEAD
    memcpy(head, cython.cast(cython.p_void, base), _HEAD)
    if head[1] != 0:
        unmap_guarded(base, head[0] + _HEAD)
    else:
        free(cython.cast(cython.p_void, base))


def install():
    """From now on, new arrays are guarded."""
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined] # not declared

    table = cython.cast(
        cython.pointer(cython.p_void),
        PyCapsule_GetPointer(_multiarray_umath._ARRAY_API, cython.NULL),
    )
    strcpy(_handler.name, b"weft guard")
    _handler.version = 1
    _handler.context = cython.NULL
    _handler.malloc = _allocate
    _handler.calloc = _allocate_zeros
    _handler.realloc = _resize
    _handler.free = _free
    capsule = PyCapsule_New(cython.address(_handler), b"mem_handler", cython.NULL)
    set_handler = cython.cast(SetHandler, table[_SET_HANDLER])
    set_handler(capsule)
