# cython: language_level=3
"""The lifecycle of handles: made around a node, shown to the collector, emptied and kept for reuse when they die.

A handle is unseen by the cyclic garbage collector until it can be part of a cycle that the collector could break.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.ref import Py_DECREF
from cython.cimports.weft.engine.frontend.tensor import Storage, Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import (
    FREE_HANDLES,
    Py_REFCNT,
    Py_TYPE,
    PyObject_GC_UnTrack,
    PyObject_GenericSetAttr,
    PyTypeObject,
    visitproc,
    watch,
    wrap,
)
from cython.cimports.weft.engine.ir.free_list import keep, reuse, revive
from cython.cimports.weft.engine.ir.node import Node

from weft._build.compiled import require

require(__name__, cython.compiled)


def wrap_node(node: Node, edge=None, strides=None):
    """`wrap` for interpreted callers; `strides` where the logical layout is not row-major."""
    tensor: Tensor = wrap(node, edge)
    tensor.strides = strides
    return tensor


@cython.cfunc
@cython.exceptval(check=False)
def _empty(tensor: Tensor) -> cython.void:
    """A dying handle gives up everything it holds."""
    if tensor.node is not None:
        tensor.node.external_refs -= 1
        tensor.node = None
    if tensor._storage is not None:
        tensor._storage = None
    if tensor.strides is not None:
        tensor.strides = None
    if tensor.edge is not None:
        tensor.edge = None
    if tensor.base is not None:
        tensor.base = None
    if tensor.view_chain is not None:
        tensor.view_chain = None
    if tensor._grad is not None:
        tensor._grad = None
    if tensor.hooks is not None:
        tensor.hooks = None
    if tensor.counter is not None:
        tensor.counter = None
    _drop_attributes(tensor)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _drop_attributes(tensor: Tensor) -> cython.void:
    """Give up what users have set."""
    if tensor.attributes != cython.NULL:
        Py_DECREF(cython.cast(object, tensor.attributes))
        tensor.attributes = cython.NULL


@cython.cfunc
@cython.exceptval(check=False)
def _retire(dying: cython.pointer(PyObject)) -> cython.void:
    """Free a handle (tp_dealloc): emptied, it waits to be used again. Not so those of subclasses, and what weak
    references know."""
    if (
        Py_TYPE(dying) != _kind
        or dead_handles.count == FREE_HANDLES
        or cython.cast(cython.pp_void, cython.cast(cython.p_char, dying) + _kind.tp_weaklistoffset)[
            0
        ]
        != cython.NULL
    ):
        dead_handles.free(dying)
        return
    PyObject_GC_UnTrack(dying)
    revive(dying)
    _empty(cython.cast(Tensor, dying))
    keep(cython.address(dead_handles), dying)


@cython.cfunc
@cython.exceptval(check=False)
def _traverse(
    holder: cython.pointer(PyObject), visit: visitproc, argument: cython.p_void
) -> cython.int:
    """Show the collector the attributes that users have set, with everything else (tp_traverse)."""
    result: cython.int = _traverse_fields(holder, visit, argument)
    attributes: cython.p_void = cython.cast(Tensor, holder).attributes
    if result == 0 and attributes != cython.NULL:
        result = visit(cython.cast(cython.pointer(PyObject), attributes), argument)
    if result == 0:
        result = _traverse_storage(cython.cast(Tensor, holder), visit, argument)
    return result


@cython.cfunc
@cython.exceptval(check=False)
def _traverse_storage(tensor: Tensor, visit: visitproc, argument: cython.p_void) -> cython.int:
    """Show the collector the value in a storage that only this handle holds: a user may have attached something."""
    storage: cython.pointer(PyObject) = cython.cast(cython.pointer(PyObject), tensor._storage)
    if tensor._storage is None or Py_REFCNT(storage) != 1:
        return 0
    return visit(
        cython.cast(cython.pointer(PyObject), cython.cast(Storage, storage).node), argument
    )


@cython.cfunc
@cython.exceptval(check=False)
def _clear(holder: cython.pointer(PyObject)) -> cython.int:
    """Break a cycle (tp_clear), and leave a handle that still has its value."""
    tensor: Tensor = cython.cast(Tensor, holder)
    attributes: cython.p_void = tensor.attributes
    tensor.edge = None
    tensor._grad = None
    tensor.hooks = None
    if attributes != cython.NULL:
        tensor.attributes = cython.NULL
        Py_DECREF(cython.cast(object, attributes))
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _set_attribute(
    holder: cython.pointer(PyObject),
    name: cython.pointer(PyObject),
    value: cython.pointer(PyObject),
) -> cython.int:
    """Set an attribute (tp_setattro)."""
    watch(cython.cast(Tensor, holder))
    return PyObject_GenericSetAttr(holder, name, value)


@cython.cfunc
def _take_over() -> cython.void:
    """Put these functions into Tensor's slots, before there are subclasses."""
    global _kind, _traverse_fields
    _kind = cython.cast(cython.pointer(PyTypeObject), Tensor)
    _traverse_fields = _kind.tp_traverse
    reuse(cython.address(dead_handles), Tensor, _retire, FREE_HANDLES)
    _kind.tp_traverse = _traverse
    _kind.tp_clear = _clear
    _kind.tp_setattro = _set_attribute


_take_over()
