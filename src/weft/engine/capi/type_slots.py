# cython: language_level=3
"""Methods added to a compiled class at import, so that each function is written once, in its own module, and found by
ordinary attribute lookup; and classes of other names for its instances.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.capi.type_slots import (
    Py_INCREF,
    Py_SET_TYPE,
    Py_TPFLAGS_BASETYPE,
    PyType_Modified,
    PyTypeObject,
)

from weft._build.compiled import require

require(__name__, cython.compiled)


def add_to_type(cls: object, members):
    """Add the members of a mapping to a class, past what its metaclass allows. Errors: TypeError on a name that is
    taken."""
    pointer: cython.pointer(PyTypeObject) = cython.cast(cython.pointer(PyTypeObject), cls)
    namespace: dict = cython.cast(dict, pointer.tp_dict)
    for name, member in members.items():
        if name in namespace and not name.startswith("__"):
            raise TypeError(f"Tensor already has a member {name!r}")
        namespace[name] = member
    PyType_Modified(pointer)


IMMUTABLE = cython.declare(
    cython.ulong, 1 << 8
)  # the type flag Py_TPFLAGS_IMMUTABLETYPE, since 3.10


def open_type(cls: type):
    """Let programs set members of a compiled class, as of one that is written in Python."""
    pointer: cython.pointer(PyTypeObject) = cython.cast(cython.pointer(PyTypeObject), cls)
    pointer.tp_flags = pointer.tp_flags & ~IMMUTABLE
    PyType_Modified(pointer)


def replace_in_type(cls: type, members):
    """Put other members in the place of those of a compiled class and its subclasses, special methods included: the
    slots of the class are what Python makes of them, and those of before where the former members come back."""
    pointer: cython.pointer(PyTypeObject) = cython.cast(cython.pointer(PyTypeObject), cls)
    before = pointer.tp_flags & IMMUTABLE
    pointer.tp_flags = pointer.tp_flags & ~IMMUTABLE
    try:
        for name, member in members.items():
            type.__setattr__(cls, name, member)
    finally:
        pointer.tp_flags = pointer.tp_flags | before
        PyType_Modified(pointer)
    classes = [cls]
    for each in classes:
        take_no_concatenation(each)
        classes.extend(type.__subclasses__(each))


def take_no_concatenation(cls: object):
    """Let `+=` of a class be a sum alone: Python takes an inherited `__iadd__` for the concatenation of sequences too,
    whose NotImplemented would become the value instead of a TypeError."""
    pointer: cython.pointer(PyTypeObject) = cython.cast(cython.pointer(PyTypeObject), cls)
    if pointer.tp_as_sequence != cython.NULL:
        pointer.tp_as_sequence.sq_inplace_concat = cython.NULL


def allow_dict(cls: type, offset: cython.Py_ssize_t):
    """Make instances of a compiled class take attributes: `offset` is that of a pointer, NULL until the first."""
    pointer: cython.pointer(PyTypeObject) = cython.cast(cython.pointer(PyTypeObject), cls)
    pointer.tp_dictoffset = offset
    PyType_Modified(pointer)


def show_under(cls: type, path: bytes):
    """Let a compiled class print, and be pickled, under the path at which users find it. The path is never freed."""
    pointer: cython.pointer(PyTypeObject) = cython.cast(cython.pointer(PyTypeObject), cls)
    Py_INCREF(path)
    pointer.tp_name = path
    PyType_Modified(pointer)


def class_like(cls: type, name: str, members):
    """A class with the layout of a compiled one and another name, for `show_as`; also of one without subclasses."""
    pointer: cython.pointer(PyTypeObject) = cython.cast(cython.pointer(PyTypeObject), cls)
    flags = pointer.tp_flags
    pointer.tp_flags = flags | Py_TPFLAGS_BASETYPE
    try:
        made = type(name, (cls,), {"__slots__": (), **members})
    finally:
        pointer.tp_flags = flags
    return made


def show_as(instance, cls: type):
    """Make an object an instance of a class that `class_like` has made of its own."""
    Py_INCREF(cls)
    Py_SET_TYPE(
        cython.cast(cython.pointer(PyObject), instance),
        cython.cast(cython.pointer(PyTypeObject), cls),
    )
