from cpython.object cimport PyObject
from weft.engine.ir.node cimport Node
from weft.engine.capi.type_slots cimport Py_DECREF, Py_SET_TYPE, PyTypeObject

cdef extern from "Python.h":
    ctypedef int (*visitproc)(PyObject*, void*) noexcept
    ctypedef int (*traverseproc)(PyObject*, visitproc, void*) noexcept
    ctypedef int (*inquiry)(PyObject*) noexcept
    ctypedef PyObject* (*allocfunc)(SeenType*, Py_ssize_t) noexcept
    ctypedef void (*freefunc)(void*) noexcept
    ctypedef void (*destructor)(PyObject*) noexcept
    ctypedef struct SeenType "PyTypeObject":
        Py_ssize_t tp_basicsize
        allocfunc tp_alloc
        freefunc tp_free
        destructor tp_dealloc
        traverseproc tp_traverse
        inquiry tp_clear
    SeenType* type_of "Py_TYPE"(PyObject*)
    PyObject* PyObject_Init(PyObject*, SeenType*)
    void* PyObject_Calloc(size_t, size_t)
    void PyObject_Free(void*)
    void PyObject_GC_Track(void*)
    void PyObject_GC_UnTrack(void*)
    PyObject* PyErr_NoMemory()

cdef enum:
    COLLECTOR = 16  # bytes of the cyclic collector's header before an object

# Make a dying node one that nobody sees.
cdef inline void unsee(PyObject* dying) noexcept:
    cdef SeenType* shown = type_of(dying)
    if <void*>shown != <void*>Node:
        PyObject_GC_UnTrack(dying)
        Py_SET_TYPE(dying, <PyTypeObject*><PyObject*>Node)
        Py_DECREF(<object><PyObject*>shown)
