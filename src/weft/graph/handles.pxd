from cpython.object cimport PyObject
from weft.graph.node cimport Node
from weft.graph.tensor cimport Tensor

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
    Py_ssize_t Py_REFCNT(PyObject*)
    void Py_SET_REFCNT(PyObject*, Py_ssize_t)
    void PyObject_GC_UnTrack(void*)
    void PyObject_GC_Track(void*)
    bint PyObject_GC_IsTracked(PyObject*)
    int PyObject_GenericSetAttr(PyObject*, PyObject*, PyObject*) except -1

cdef enum:
    HANDLES = 8192  # dead handles that wait to be used again

cdef Tensor blank()
cdef Tensor wrap(Node node, object edge)
cdef void watch(Tensor tensor) noexcept

cdef PyObject* _handles[HANDLES]
cdef Py_ssize_t _idle
cdef PyTypeObject* _kind
cdef destructor _free_handle
cdef traverseproc _traverse_fields
