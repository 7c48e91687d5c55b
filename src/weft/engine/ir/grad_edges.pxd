from weft.engine.ir.free_list cimport FreeList

cdef extern from "Python.h":
    void PyObject_GC_Track(void*)
    void PyObject_GC_UnTrack(void*)

cdef enum:
    FREE_ACCUMULATORS = 256  # dead accumulators in the free list

cdef class GradientFunction:
    cdef public tuple edges
    cdef public long long seq
    cdef public int outputs
    cdef public long long walk_number  # as in Node
    cdef public object observers
    cdef public bint released

cdef class OutputEdge:
    cdef readonly GradientFunction function
    cdef readonly int number

cdef class AccumulateGrad:
    cdef readonly object variable
    cdef public tuple expects
    cdef void** known_at
    cdef public long long walk_number  # as in Node
    cdef public object observers

cdef OutputEdge new_edge(GradientFunction function, int number)
cdef AccumulateGrad new_sink(object variable, void** known_at)

cdef FreeList _dead_sinks
