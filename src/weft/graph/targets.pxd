from cpython.object cimport PyObject

cdef extern from "Python.h":
    ctypedef void (*destructor)(PyObject*) noexcept
    ctypedef struct PyTypeObject:
        destructor tp_dealloc
    void Py_SET_REFCNT(PyObject*, Py_ssize_t)
    void PyObject_GC_Track(void*)
    void PyObject_GC_UnTrack(void*)

cdef enum:
    SINKS = 256  # dead sinks that wait to be used again

cdef class GradientFunction:
    cdef public tuple edges
    cdef public long long seq
    cdef public int outputs
    cdef public long long mark
    cdef public long long count
    cdef public object scratch
    cdef public object observers
    cdef public bint released

cdef class OutputEdge:
    cdef readonly GradientFunction function
    cdef readonly int number

cdef class AccumulateGrad:
    cdef readonly object variable
    cdef void** known_at
    cdef public long long mark
    cdef public long long count
    cdef public object scratch
    cdef public object observers

cdef AccumulateGrad new_sink(object variable, void** known_at)

cdef PyObject* _sinks[SINKS]
cdef Py_ssize_t _sinks_waiting
cdef destructor _free_sink
