from cpython.object cimport PyObject
from weft.engine.ir.node cimport Node
from weft.engine.ir.free_list cimport FreeList, destructor, take, zero
from weft.engine.ir.tape cimport ambient, current_tape
from weft.engine.frontend.tensor cimport Tensor

cdef extern from "Python.h":
    ctypedef int (*visitproc)(PyObject*, void*) noexcept
    ctypedef int (*traverseproc)(PyObject*, visitproc, void*) noexcept
    ctypedef int (*inquiry)(PyObject*) noexcept
    ctypedef int (*setattrofunc)(PyObject*, PyObject*, PyObject*) except -1
    ctypedef struct PyTypeObject:
        traverseproc tp_traverse
        inquiry tp_clear
        setattrofunc tp_setattro
        Py_ssize_t tp_weaklistoffset
    PyTypeObject* Py_TYPE(PyObject*)
    Py_ssize_t Py_REFCNT(PyObject*)
    void PyObject_GC_UnTrack(void*)
    void PyObject_GC_Track(void*)
    bint PyObject_GC_IsTracked(PyObject*)
    int PyObject_GenericSetAttr(PyObject*, PyObject*, PyObject*) except -1

cdef enum:
    FREE_HANDLES = 8192  # dead handles in the free list

cdef FreeList dead_handles
cdef PyTypeObject* _kind
cdef traverseproc _traverse_fields

# Show a handle to the cyclic garbage collector, from the first moment at which it can be part of a cycle that the
# collector could break: with an attribute, a hook, a gradient, a base, an edge that is not a node.
cdef inline void watch(Tensor tensor) noexcept:
    if not PyObject_GC_IsTracked(<PyObject*>tensor):
        PyObject_GC_Track(<void*>tensor)

# A handle of nothing, unseen by the cyclic garbage collector (`watch`).
cdef inline Tensor blank():
    cdef Tensor tensor
    if dead_handles.count == 0:
        tensor = Tensor.__new__(Tensor)
        PyObject_GC_UnTrack(<void*>tensor)
        return tensor
    tensor = <Tensor>take(&dead_handles)
    zero(&tensor.offset, &tensor.attributes)
    return tensor

# A fresh contiguous tensor around a node.
cdef inline Tensor wrap(Node node, object edge):
    cdef Tensor tensor = blank()
    tensor.node = node
    node.external_refs += 1
    tensor._shape = node.shape
    tensor._dtype = node.dtype
    if edge is not None:
        tensor.edge = edge
        if not isinstance(edge, Node):
            watch(tensor)
    if ambient > 0:
        tensor.inference = current_tape().mode.inference
    return tensor
