# cython: language_level=3
"""grad_fn nodes: nodes in users' hands become instances of classes named like their operations, which the cyclic
collector sees.

It takes a node that a user gets hold of, or that gets a hook, and changes its class. All other nodes stay unseen: they
form no cycles that the collector could break, and there are millions. Memory of every node begins with room for the
collector's header.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.frontend.grad_fn_nodes import (
    COLLECTOR,
    PyErr_NoMemory,
    PyObject_Calloc,
    PyObject_Free,
    PyObject_GC_Track,
    PyObject_Init,
    SeenType,
    type_of,
    visitproc,
)
from cython.cimports.weft.engine.ir.node import Node, observers_on

from weft._build.compiled import require
from weft.engine.capi.type_slots import class_like, show_as

require(__name__, cython.compiled)


@cython.cfunc
@cython.exceptval(check=False)
def _allocate(kind: cython.pointer(SeenType), items: cython.Py_ssize_t) -> cython.pointer(PyObject):
    """Memory for a node (tp_alloc), all zero."""
    memory: cython.p_char = cython.cast(
        cython.p_char, PyObject_Calloc(1, kind.tp_basicsize + COLLECTOR)
    )
    if memory == cython.NULL:
        return PyErr_NoMemory()
    return PyObject_Init(cython.cast(cython.pointer(PyObject), memory + COLLECTOR), kind)


@cython.cfunc
@cython.exceptval(check=False)
def _free(node: cython.p_void) -> cython.void:
    """Give up the memory of a node (tp_free)."""
    PyObject_Free(cython.cast(cython.p_char, node) - COLLECTOR)


@cython.cfunc
@cython.exceptval(check=False)
def _traverse(
    node: cython.pointer(PyObject), visit: visitproc, argument: cython.p_void
) -> cython.int:
    """Show the collector what users have attached (tp_traverse). Other parts of the graph hold what is below."""
    result: cython.int = visit(cython.cast(cython.pointer(PyObject), type_of(node)), argument)
    if result == 0 and observers_on(cython.cast(Node, node)) is not None:
        result = visit(
            cython.cast(cython.pointer(PyObject), cython.cast(Node, node).rare.observers), argument
        )
    return result


@cython.cfunc
@cython.exceptval(check=False)
def _clear(node: cython.pointer(PyObject)) -> cython.int:
    """Nothing (tp_clear): what users have attached breaks the cycle."""
    return 0


def class_of_nodes(name: str, members) -> type:
    """A class of nodes with a name, for `see`."""
    made = class_like(Node, name, members)
    plain: cython.pointer(SeenType) = cython.cast(cython.pointer(SeenType), Node)
    kind: cython.pointer(SeenType) = cython.cast(cython.pointer(SeenType), made)
    kind.tp_dealloc = plain.tp_dealloc
    kind.tp_traverse = _traverse
    kind.tp_clear = _clear
    return made


def see(node: Node, cls: type):
    """Make a node that nobody has seen an instance of a class of `class_of_nodes`."""
    show_as(node, cls)
    PyObject_GC_Track(cython.cast(cython.p_void, node))


@cython.cfunc
def _take_over() -> cython.void:
    """Put these functions into the slots of nodes, before there are any."""
    kind: cython.pointer(SeenType) = cython.cast(cython.pointer(SeenType), Node)
    kind.tp_alloc = _allocate
    kind.tp_free = _free


_take_over()
