# cython: language_level=3
"""Adding methods to a compiled class at import, so that each function is written once, in its own module, and is
found by ordinary attribute lookup."""

import cython
from cython.cimports.weft.graph.typedict import PyType_Modified, PyTypeObject

from weft._compiled import require

require(__name__, cython.compiled)


def add_to_type(cls: type, members):
    """Add the members of a mapping to a class compiled by this project. Errors: TypeError on a name that is taken."""
    pointer: cython.pointer(PyTypeObject) = cython.cast(cython.pointer(PyTypeObject), cls)
    namespace: dict = cython.cast(dict, pointer.tp_dict)
    for name, member in members.items():
        if name in namespace and not name.startswith("__"):
            raise TypeError(f"Tensor already has a member {name!r}")
        namespace[name] = member
    PyType_Modified(pointer)


def allow_dict(cls: type, offset: cython.Py_ssize_t):
    """Make instances of a compiled class take attributes: `offset` is that of a pointer, NULL until the first."""
    pointer: cython.pointer(PyTypeObject) = cython.cast(cython.pointer(PyTypeObject), cls)
    pointer.tp_dictoffset = offset
    PyType_Modified(pointer)
