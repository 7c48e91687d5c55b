# cython: language_level=3
"""The call site of an operation: the code object and instruction of the innermost frame that is not the library's own,
and, where library code records it, its library site.

Library code opens scopes: at the call of a public function or a module, and for each derivative rule. An operation's
library site is its number among those of its scope, and the scope's among those of the scope around it, hashed. No
frame, line or file of the library has part in it, so it is the same whether modules are compiled or not. Compiled
modules make no frames, so a call from user code finds its frame at once.
"""

import os

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdint import uintptr_t
from cython.cimports.weft.engine.capi.call_site import (
    OWN_CALL,
    SEEN_BITS,
    CallScope,
    PyGC_Disable,
    PyGC_Enable,
    begin_scope,
    next_site,
    site_number,
    weft_caller,
    weft_innermost,
    weft_reaches,
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
def caller(instruction: cython.p_int) -> cython.pointer(PyObject):
    """The code object of the user's frame (borrowed; NULL if there is none). `instruction` gets the number of the
    instruction in it (`errors.describe_position` reads the line)."""
    instruction[0] = -1
    return weft_caller(_is_internal, weft_innermost(), instruction)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _find_caller(scope: cython.pointer(CallScope)) -> cython.void:
    """Note in a scope what is the caller of all its operations."""
    if scope.code == cython.NULL:
        scope.instruction = -1
        scope.code = weft_caller(_is_internal, scope.frame, cython.address(scope.instruction))


@cython.cfunc
@cython.exceptval(check=False)
def caller_of_scope(scope: cython.pointer(CallScope), instruction: cython.p_int) -> cython.pointer(
    PyObject
):
    """`caller`, for library code that has just opened a scope."""
    _find_caller(scope)
    instruction[0] = scope.instruction
    return scope.code


@cython.cfunc
@cython.exceptval(check=False)
def site_in_scope(
    scope: cython.pointer(CallScope),
    instruction: cython.p_int,
    library_site: cython.p_uint,
    is_view: cython.bint,
) -> cython.pointer(PyObject):
    """`caller`, and the library site of one more operation, while a scope is open: 0 where user code records it. A view
    is not counted: one that the caller has made is recorded where somebody first reads it."""
    if not weft_reaches(_is_internal, scope.frame):
        library_site[0] = 0
        return caller(instruction)
    _find_caller(scope)
    instruction[0] = scope.instruction
    library_site[0] = site_number(scope.base, 0) if is_view else next_site(scope)
    return scope.code


@cython.cfunc
@cython.exceptval(check=False)
def open_within(scope: cython.pointer(CallScope), around: cython.pointer(CallScope)) -> cython.void:
    """Open a scope while another one is, which is kept: within it, or, where user code comes in between, as for a call
    of its own."""
    if weft_reaches(_is_internal, scope.frame):
        _find_caller(scope)
        base: cython.uint = next_site(scope)
        around[0] = scope[0]
        scope.base, scope.count, scope.frame = base, 0, weft_innermost()
    else:
        around[0] = scope[0]
        begin_scope(scope, OWN_CALL)


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
