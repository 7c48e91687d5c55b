# cython: language_level=3
"""The call of a module: straight to its `forward`, or through its hooks.

Most calls in a network are those of small layers, so the time before `forward` is a good part of them.
"""

import types

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.capi.call_site import CallScope, close_scope, open_scope
from cython.cimports.weft.engine.capi.vectorcall import (
    Arguments,
    Py_TYPE,
    PyObject_Vectorcall,
    PyTypeObject,
    PyVectorcall_Call,
    PyVectorcall_NARGS,
    take_calls,
)
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.tape import current_tape
from cython.cimports.weft.nn.module.call import (
    PyDict_GetItem,
    PyFunction_Check,
    PyObject_GenericGetDict,
    PyObject_VectorcallMethod,
    _PyType_Lookup,
)

from weft._build.compiled import require
from weft.engine.capi.type_slots import add_to_type

require(__name__, cython.compiled)

_FORWARD = cython.declare(str, "forward")
_HOOKS = cython.declare(str, "_hooks")
_LOOKUP = cython.declare(str, "__getattribute__")
_usual_lookup = cython.declare(object, object.__getattribute__)


@cython.final
@cython.cclass
class Call:
    """`Module.__call__`; `hooked` is called in its place where there are hooks."""

    def __cinit__(self, hooked):
        self.vectorcall = _enter
        self.hooked = hooked

    def __call__(self, *arguments, **keywords):  # for `operator`-style lookups; calls take `_enter`
        return PyVectorcall_Call(self, arguments, keywords)

    def __get__(self, instance, owner):
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name):
        return self.hooked if name == "__wrapped__" else getattr(self.hooked, name)

    def __repr__(self):
        return "<function Module.__call__>"


@cython.cfunc
def _enter(
    self: object, arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
) -> object:
    """Call `forward` of the module, which is the first argument, in a scope of its own."""
    if PyVectorcall_NARGS(count) == 0:
        raise TypeError("Module.__call__() missing 1 required positional argument: 'self'")
    mode: Mode = current_tape().mode
    around = cython.declare(CallScope)
    open_scope(cython.address(mode.scope), cython.address(around))
    try:
        return _run(self, arguments, count, names)
    finally:
        close_scope(cython.address(mode.scope), cython.address(around))


@cython.cfunc
def _run(
    self: object, arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
) -> object:
    """Call `forward`, or what calls it where there are hooks."""
    kind: cython.pointer(PyTypeObject) = Py_TYPE(arguments[0])
    own: dict = PyObject_GenericGetDict(cython.cast(object, arguments[0]), cython.NULL)
    hooks: cython.pointer(PyObject) = PyDict_GetItem(own, _HOOKS)
    if hooks == cython.NULL:
        hooks = _PyType_Lookup(kind, _HOOKS)
    if hooks != cython.cast(cython.pointer(PyObject), None):
        return PyObject_Vectorcall(cython.cast(Call, self).hooked, arguments, count, names)
    forward: cython.pointer(PyObject) = _PyType_Lookup(kind, _FORWARD)
    if (
        forward != cython.NULL
        and PyFunction_Check(forward)
        and PyDict_GetItem(own, _FORWARD) == cython.NULL
        and _PyType_Lookup(kind, _LOOKUP) == cython.cast(cython.pointer(PyObject), _usual_lookup)
    ):
        return PyObject_Vectorcall(cython.cast(object, forward), arguments, count, names)
    return PyObject_VectorcallMethod(_FORWARD, arguments, count, names)


def _take_calls():
    """Let calls and method calls go through `_enter`, without a tuple of arguments."""
    probe: Call = Call.__new__(Call, None)  # type: ignore[call-arg] # __cinit__ takes it
    take_calls(Call, probe, cython.address(probe.vectorcall))
    add_to_type(
        Call,
        {
            "__doc__": property(lambda call: call.hooked.__doc__),
            "__module__": property(lambda call: call.hooked.__module__),
        },
    )


_take_calls()
