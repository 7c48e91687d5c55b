from cpython.object cimport PyObject
from weft.graph.dtype cimport DType
from weft.graph.node cimport Node, OpRow

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject*)

cdef extern from "Python.h":
    ctypedef void (*destructor)(PyObject*) noexcept
    ctypedef int (*visitproc)(PyObject*, void*) noexcept
    ctypedef int (*traverseproc)(PyObject*, visitproc, void*) noexcept
    ctypedef int (*inquiry)(PyObject*) noexcept
    ctypedef int (*setattrofunc)(PyObject*, PyObject*, PyObject*) except -1
    ctypedef struct PyTypeObject:
        destructor tp_dealloc
        traverseproc tp_traverse
        inquiry tp_clear
        setattrofunc tp_setattro
        Py_ssize_t tp_weaklistoffset
    PyTypeObject* Py_TYPE(PyObject*)
    void Py_SET_REFCNT(PyObject*, Py_ssize_t)
    void PyObject_GC_UnTrack(void*)
    void PyObject_GC_Track(void*)
    bint PyObject_GC_IsTracked(PyObject*)
    PyObject* PyTuple_GET_ITEM(object, Py_ssize_t)
    int PyObject_GenericSetAttr(PyObject*, PyObject*, PyObject*) except -1

cdef enum:
    RULE_PROMOTE = 0
    RULE_TO_FLOAT = 1
    RULE_COMPARE = 2
    RULE_LOGICAL = 3
    RULE_INTEGRAL = 4
    RULE_SELECT = 5
    HANDLES = 8192  # dead handles that wait to be used again
    STEPS = 8  # views of more steps have a node for their value beside their records

cdef class Storage:
    cdef public Node node
    cdef public long long version
    cdef public long long apart
    cdef public object foreign

cdef class VersionCounter:
    cdef public long long version

cdef class Tensor:
    cdef Node node
    cdef public Storage storage
    cdef readonly tuple _shape
    cdef readonly DType _dtype
    cdef public tuple strides
    cdef object edge
    cdef public Tensor base
    cdef public tuple recipe
    cdef public Tensor _grad
    cdef public object hooks
    cdef public VersionCounter counter
    cdef object __weakref__
    # From here to `attributes`: zero in a new handle.
    cdef public long long offset
    cdef public long long seen
    cdef public int creation
    cdef public int lens
    cdef public bint leaf_grad
    cdef public bint retains
    cdef public bint inference
    cdef void* accumulator
    cdef void* attributes

cdef Node value(Tensor tensor)
cdef object edge_of(Tensor tensor)
cdef bint needs_grad(Tensor tensor)
cdef Tensor wrap(Node node, object edge)
cdef void watch(Tensor tensor) noexcept

cdef dict _rows
cdef dict _late
cdef DType _bool
cdef long long _budget_nodes
cdef long long _budget_bytes
cdef bint _inference_used
cdef OpRow _add
cdef OpRow _sub
cdef OpRow _rsub
cdef OpRow _mul
cdef OpRow _div
cdef OpRow _strided
cdef OpRow _put
cdef OpRow _cast
cdef OpRow _neg
cdef OpRow _permute

cpdef logical_strides(Tensor tensor)
cpdef view(OpRow row, Tensor tensor, object params, tuple shape, tuple strides, long long offset)
cpdef record(OpRow row, tuple tensors, object params, tuple shape, DType dtype)
cpdef record_elementwise(OpRow row, tuple operands, object params)

cdef PyObject* _handles[HANDLES]
cdef Py_ssize_t _idle
cdef PyTypeObject* _kind
cdef destructor _free_handle
cdef traverseproc _traverse_fields
