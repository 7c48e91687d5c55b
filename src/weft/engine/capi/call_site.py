# cython: language_level=3
"""The call site of an operation: the code object and instruction of the innermost frame that is not the library's own,
and a hash of the path from there through the library. Compiled modules make no frames, so a call from user code finds
its frame at once.
"""

import os

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdint import uintptr_t
from cython.cimports.weft.engine.capi.call_site import (
    SEEN_BITS,
    PyGC_Disable,
    PyGC_Enable,
    weft_caller,
)
from cython.cimports.weft.engine.capi.lru_table import LruTable

from weft._build.compiled import require
from weft.errors import DEMO, PACKAGE

require(__name__, cython.compiled)

FILES = 4096
_SPREAD = cython.declare(cython.uint, 0x9E3779B1)
_known = cython.declare(LruTable, LruTable(FILES))  # file -> whether it is the library's own


@cython.cfunc
@cython.exceptval(check=False)
def _is_internal(code: cython.pointer(PyObject)) -> cython.int:
    """True if code is the library's own. The answer is cached by code object, which is kept alive for that."""
    spread: cython.uint = cython.cast(cython.uint, cython.cast(uintptr_t, code) >> 4) * _SPREAD
    slot: cython.int = cython.cast(cython.int, spread >> (32 - SEEN_BITS))
    if _codes[slot] != code:
        _remember(slot, cython.cast(object, code))
    return _verdicts[slot]


@cython.cfunc
def _full_path(name: str) -> str:
    """The file's path from the root, without steps back."""
    if name[:1] != "/":
        name = os.getcwd() + "/" + name
    parts: list = []
    for part in name.split("/"):
        if part == "..":
            del parts[-1:]
        elif part and part != ".":
            parts.append(part)
    return "/" + "/".join(parts)


@cython.cfunc
def _lies_inside(name: str):
    """The answer of `errors.is_internal` without running Python, where a signal's handler could run: what it raises
    would be lost between the calls from C."""
    if name.startswith("<"):
        return False
    try:
        path: str = _full_path(name)
    except OSError:  # the current folder is gone
        return False
    return path.startswith(PACKAGE) and not path.startswith(DEMO)


@cython.cfunc
@cython.exceptval(check=False)
def _remember(slot: cython.int, code: object) -> cython.void:
    name: str = code.co_filename
    known = _known.get(name)
    if known is None:
        known = _lies_inside(name)
        _known.put(name, known)
    previous: cython.pointer(PyObject) = _codes[slot]
    Py_INCREF(code)
    _codes[slot] = cython.cast(cython.pointer(PyObject), code)
    _verdicts[slot] = known
    if previous != cython.NULL:
        Py_DECREF(cython.cast(object, previous))


@cython.cfunc
@cython.exceptval(check=False)
def caller(call_site: cython.p_int) -> cython.pointer(PyObject):
    """The code object of the user's frame (borrowed; NULL if there is none). `call_site` gets a number for the
    instruction and the path from there (`errors.describe_position` reads the line)."""
    call_site[0] = -1
    return weft_caller(_is_internal, call_site)


def pause_collector():
    """Stop the cyclic garbage collector for a pass that makes many short-lived records; whether it was on."""
    return PyGC_Disable() != 0


def resume_collector(was_on: cython.bint):
    """Undo `pause_collector`."""
    if was_on:
        PyGC_Enable()


def without_collector(function, *arguments):
    """Call a function with the collector paused. Compiled: no signal can come between pausing and resuming."""
    was_on: cython.bint = pause_collector()
    try:
        return function(*arguments)
    finally:
        resume_collector(was_on)
