# cython: language_level=3
"""The `__torch_function__` protocol: modes, registered types and users' types may answer a call of a public function.

It takes the arguments of a call and returns the answer, or NotImplemented.

Three kinds are asked, in this order: the last mode that this thread has entered; types of the library that are
registered (`intercept`: ragged and sparse tensors), which may send a call on; and the users' types with PyTorch's
protocol, subclasses of Tensor and others. The last are found by their flag: classes made at run time have it, and
Tensor, numbers and containers do not, so that ordinary arguments cost a test each.
"""

from _thread import _local, get_ident
from contextvars import ContextVar
from weakref import ref

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.capi.vectorcall import (
    Arguments,
    Py_TYPE,
    PyTypeObject,
    PyVectorcall_NARGS,
)
from cython.cimports.weft.engine.dispatch import core_hooks
from cython.cimports.weft.engine.dispatch.torch_function import (
    Py_TPFLAGS_HEAPTYPE,
    Py_TPFLAGS_LIST_SUBCLASS,
    Py_TPFLAGS_TUPLE_SUBCLASS,
    _PyType_Lookup,
)

from weft._build.compiled import require
from weft.errors import ArgumentTypeError

require(__name__, cython.compiled)

_NAME = cython.declare(str, "__torch_function__")
_types: list = []  # those of the library that answer calls themselves
_modes: list = []  # (thread, mode, what to call if the thread ends) of those that are on, the last one first asked
_here = _local()  # lives as long as this thread
_muted = ContextVar(
    "weft_muted", default=False
)  # whether types are not asked: of a thread, or of a fiber
_searching = cython.declare(cython.bint, False)  # true if lists are searched to their end


def disabled(func, types, args=(), kwargs=None):
    """The `__torch_function__` of a type that does not answer: calls are as if it had none."""
    token = _muted.set(True)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        _muted.reset(token)


class DisableTorchFunctionSubclass:
    """A context in which no type is asked by its `__torch_function__`; modes are. It can be entered within itself."""

    def __init__(self):
        self.before = []

    def __enter__(self):
        self.before.append(_muted.get())
        _muted.set(True)

    def __exit__(self, *exception):
        _muted.set(self.before.pop())


def is_muted():
    """True if types are not asked now."""
    return _muted.get()


def search_lists():
    """From now on every item of a list or tuple may be of a type that answers; until then only the first is looked
    at."""
    global _searching
    _searching = True


# -- modes and registered types ----------------------------------------------------------------------------------------


def intercept(cls: type):
    """Let calls with an instance of `cls` among their arguments, or in a list or tuple of them, go to
    `cls.__torch_function__(function, types, args, kwargs)`; NotImplemented sends them on. A class decorator."""
    global intercepting
    _types.append(cls)
    intercepting = True
    return cls


class _Presence:
    """A thread, as long as it runs."""


def enter_mode(mode: object, ended=None):
    """Let every call of a public function on this thread go to `mode.__torch_function__(function, types, args, kwargs)`
    first; NotImplemented sends it on. While it is asked, the mode is off. Where the thread ends before the mode does,
    the mode ends with it, and `ended()` is called."""
    global intercepting
    thread = get_ident()
    if not hasattr(_here, "presence"):
        _here.presence = _Presence()
        _here.end = ref(_here.presence, lambda _: _leave_all(thread))
    _modes.append((thread, mode, ended))
    intercepting = True


def leave_mode(mode: object):
    """End a mode of this thread; of several entries the last one."""
    global intercepting
    thread = get_ident()
    place: cython.Py_ssize_t
    for place in range(len(_modes) - 1, -1, -1):
        if _modes[place][0] == thread and _modes[place][1] is mode:
            del _modes[place]
            break
    intercepting = bool(_types) or bool(_modes)


def _leave_all(thread):
    """A thread has ended, and the modes that it had on."""
    global intercepting
    if _modes is None:
        return  # the program ends
    left: list = [entry for entry in _modes if entry[0] == thread]
    _modes[:] = [entry for entry in _modes if entry[0] != thread]
    intercepting = bool(_types) or bool(_modes)
    for _, _, ended in left:
        if ended is not None:
            ended()


def has_mode():
    """True if a mode of this thread is on."""
    return _own_mode() >= 0


def modes_of_thread():
    """The modes that this thread has entered, the outermost first."""
    thread = get_ident()
    return [mode for owner, mode, _ in _modes if owner == thread]


@cython.cfunc
def _own_mode() -> cython.Py_ssize_t:
    """The place of this thread's last mode, or -1."""
    thread = get_ident()
    place: cython.Py_ssize_t
    for place in range(len(_modes) - 1, -1, -1):
        if _modes[place][0] == thread:
            return place
    return -1


def ask_mode(public: object, args: tuple, kwargs: dict):
    """The answer of this thread's last mode to a call."""
    place: cython.Py_ssize_t = _own_mode()
    if place < 0:
        return NotImplemented
    entry: tuple = _modes.pop(place)
    try:
        kinds = tuple([type(value) for value in answering_of((args, tuple(kwargs.values())))])
        return entry[1].__torch_function__(public, kinds, args, kwargs)
    finally:
        _modes.insert(min(place, len(_modes)), entry)


@cython.cfunc
def _registered(value: object, depth: cython.int) -> object:
    """The registered type of an argument, or None."""
    kind: object = type(value)
    for registered in _types:
        if kind is registered:
            return registered
    if depth == 0 and (kind is list or kind is tuple):
        for item in value:
            found = _registered(item, 1)
            if found is not None:
                return found
    return None


@cython.cfunc
def intercepted(
    public: object, arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
) -> object:
    """The answer of a mode, or of a registered type among the arguments, to a call; NotImplemented if there is
    none."""
    given: cython.Py_ssize_t = PyVectorcall_NARGS(count)
    if _modes:
        values, keywords = collected(arguments, given, names)
        answer = ask_mode(public, tuple(values), keywords)
        if answer is not NotImplemented:
            return answer
    if not _types:
        return NotImplemented
    position: cython.Py_ssize_t
    for position in range(given + _keywords(names)):
        found = _registered(cython.cast(object, arguments[position]), 0)
        if found is not None:
            values, keywords = collected(arguments, given, names)
            return found.__torch_function__(public, (found,), tuple(values), keywords)
    return NotImplemented


@cython.cfunc
@cython.inline
def _keywords(names: cython.pointer(PyObject)) -> cython.Py_ssize_t:
    if names == cython.NULL:
        return 0
    return len(cython.cast(tuple, cython.cast(object, names)))


@cython.cfunc
def collected(
    arguments: Arguments, given: cython.Py_ssize_t, names: cython.pointer(PyObject)
) -> tuple:
    """The arguments of a call as a list and a dictionary."""
    position: cython.Py_ssize_t
    values: list = [cython.cast(object, arguments[position]) for position in range(given)]
    keywords: dict = {}
    if names != cython.NULL:
        for position, name in enumerate(cython.cast(tuple, cython.cast(object, names))):
            keywords[name] = cython.cast(object, arguments[given + position])
    return values, keywords


# -- the users' types --------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(check=False)
def answers(value: cython.pointer(PyObject)) -> cython.bint:
    """True if an object is of a user's type that answers calls."""
    kind: cython.pointer(PyTypeObject) = Py_TYPE(value)
    if not kind.tp_flags & Py_TPFLAGS_HEAPTYPE:
        return False
    method: cython.pointer(PyObject) = _PyType_Lookup(kind, _NAME)
    return method != cython.NULL and method != cython.cast(cython.pointer(PyObject), disabled)


@cython.cfunc
@cython.exceptval(check=False)
def _holds_answering(value: cython.pointer(PyObject)) -> cython.bint:
    """True if a list or tuple has an item that answers calls."""
    held: object = cython.cast(object, value)
    position: cython.Py_ssize_t
    count: cython.Py_ssize_t = len(held)
    if count > 1 and not _searching:
        count = 1
    if isinstance(held, list):
        items: list = cython.cast(list, held)
        for position in range(count):
            if answers(cython.cast(cython.pointer(PyObject), items[position])):
                return True
    else:
        row: tuple = cython.cast(tuple, held)
        for position in range(count):
            if answers(cython.cast(cython.pointer(PyObject), row[position])):
                return True
    return False


@cython.cfunc
@cython.exceptval(check=False)
def answers_within(index) -> cython.bint:
    """True if an index, or a part of it, answers calls."""
    if isinstance(index, tuple):
        for part in cython.cast(tuple, index):
            if answers(cython.cast(cython.pointer(PyObject), part)):
                return True
        return False
    value: cython.pointer(PyObject) = cython.cast(cython.pointer(PyObject), index)
    return answers(value) or (isinstance(index, list) and _holds_answering(value))


@cython.cfunc
@cython.exceptval(check=False)
def has_answering(
    arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
) -> cython.bint:
    """True if an argument, or an item of a list or tuple among them, answers calls."""
    position: cython.Py_ssize_t
    for position in range(PyVectorcall_NARGS(count) + _keywords(names)):
        if answers(arguments[position]):
            return True
        flags = Py_TYPE(arguments[position]).tp_flags
        if flags & (Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS) and _holds_answering(
            arguments[position]
        ):
            return True
    return False


@cython.cfunc
def _add(found: list, value: object):
    """List an object unless one of its type is there; before those of types that its type comes from."""
    kind: object = type(value)
    if not answers(cython.cast(cython.pointer(PyObject), value)) or kind in _types:
        return
    place: cython.Py_ssize_t = len(found)
    for index, other in enumerate(found):
        if type(other) is kind:
            return
        if place == len(found) and issubclass(kind, type(other)):
            place = index
    found.insert(place, value)


def answering_of(values):
    """One object of each type that answers calls, among the given ones and in lists and tuples of them: from left to
    right, subclasses first."""
    found: list = []
    for value in values:
        if isinstance(value, (list, tuple)):
            for item in value:
                _add(found, item)
        _add(found, value)
    return found


def ask(public: object, relevant, args: tuple, kwargs: dict):
    """Ask this thread's mode, then the types among the relevant arguments. Errors: TypeError where none answers."""
    if _modes:
        answer = ask_mode(public, args, kwargs)
        if answer is not NotImplemented:
            return answer
    return _ask_types(public, answering_of(relevant), args, kwargs)


def ask_types(public: object, args: tuple, kwargs: dict):
    """The answer of the types among the arguments, or the result where there are none; no mode is asked."""
    found: list = [] if _muted.get() else answering_of((*args, *kwargs.values()))
    return _ask_types(public, found, args, kwargs) if found else public.function(*args, **kwargs)


@cython.cfunc
def _ask_types(public: object, found: list, args: tuple, kwargs: dict) -> object:
    if not found:
        return disabled(public, (), args, kwargs)
    kinds = tuple([type(value) for value in found])
    search_lists()
    for value in found:
        answer = value.__torch_function__(public, kinds, args, kwargs)
        if answer is not NotImplemented:
            return answer
    name, listed = core_hooks.name_of(public), list(kinds)
    raise ArgumentTypeError(
        f"no implementation found for {name!r} on types that implement __torch_function__: {listed}",
        expected="a type whose __torch_function__ answers this call",
        got="NotImplemented from each",
        fix="handle the function in __torch_function__, or return super().__torch_function__(...) there",
    )


@cython.cfunc
def answered(
    public: object, arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
) -> object:
    """The answer of the users' types among the arguments to a call; NotImplemented if they are not to be asked."""
    if _muted.get():
        return NotImplemented
    values, keywords = collected(arguments, PyVectorcall_NARGS(count), names)
    found: list = answering_of((*values, *keywords.values()))
    return _ask_types(public, found, tuple(values), keywords) if found else NotImplemented
