# cython: language_level=3
"""The user's place in the program, cheaply: the code object and instruction offset of the innermost frame that is
not the library's own. Compiled modules make no frames, so a call from user code finds its frame at once."""

import cython
from cython.cimports.weft.graph.frames import (
    Py_XDECREF,
    PyFrame_GetBack,
    PyFrame_GetCode,
    PyFrame_GetLasti,
    PyFrameObject,
    PyGC_Disable,
    PyGC_Enable,
    PyThreadState_Get,
    PyThreadState_GetFrame,
    PyThreadState_GetID,
)

from weft._compiled import require
from weft.errors import is_internal

require(__name__, cython.compiled)

_offset = -1
_known = {}
_last = None
_last_internal = False


@cython.cfunc
def thread_id() -> cython.ulonglong:
    """A number that no other thread of this process has had."""
    return PyThreadState_GetID(PyThreadState_Get())


@cython.cfunc
def _internal(code) -> cython.bint:
    global _last, _last_internal
    if code is _last:
        return _last_internal
    known = _known.get(code.co_filename)
    if known is None:
        known = _known[code.co_filename] = is_internal(code.co_filename)
    _last = code
    _last_internal = known
    return _last_internal


@cython.cfunc
def caller_code():
    """The code object of the user's frame; `caller_offset` gives the offset that belongs to it."""
    global _offset
    frame: cython.pointer(PyFrameObject) = PyThreadState_GetFrame(PyThreadState_Get())
    code: object = None
    _offset = -1
    while frame != cython.NULL:
        pointer: cython.p_void = PyFrame_GetCode(frame)
        code = cython.cast(object, pointer)
        Py_XDECREF(pointer)
        back: cython.pointer(PyFrameObject) = cython.NULL
        if _internal(code):
            back = PyFrame_GetBack(frame)
        if back == cython.NULL:
            _offset = PyFrame_GetLasti(frame)
        Py_XDECREF(frame)
        frame = back
    return code


@cython.cfunc
def caller_offset() -> cython.int:
    """The instruction offset found by the last `caller_code` of this thread (both run under the GIL, in a row)."""
    return _offset


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
