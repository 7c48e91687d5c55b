from cpython.object cimport PyObject
from weft.graph.dtype cimport DType

cdef enum:
    PENDING = 0
    DONE = 1
    FAILED = 2
    RESULT_SHIFT = 40
    MASKS = 8  # a row has at most so many derivatives of its own; the last one stands for all that follow
    POOL = 8192  # dead nodes that wait to be used again
    SINKS = 256  # and dead sinks

cdef extern from "Python.h":
    ctypedef void (*destructor)(PyObject*) noexcept
    ctypedef struct PyTypeObject:
        destructor tp_dealloc
    void Py_SET_REFCNT(PyObject*, Py_ssize_t)
    void PyObject_GC_Track(void*)
    void PyObject_GC_UnTrack(void*)

cdef class OpRow:
    cdef readonly str name
    cdef readonly str grad_name
    cdef readonly int code
    cdef readonly int kind
    cdef readonly int rule
    cdef readonly tuple operands
    cdef readonly object shape
    cdef readonly object dtype
    cdef readonly object numpy
    cdef readonly tuple pulls
    cdef readonly tuple pull_saves
    cdef readonly tuple batch_operands
    cdef readonly tuple pull_masks
    cdef readonly bint differentiable
    cdef readonly tuple takes
    cdef readonly unsigned long long types
    cdef readonly bint batchable
    cdef readonly object push
    cdef readonly object batch
    cdef readonly object lower
    cdef readonly object strides
    cdef readonly object samples
    cdef readonly object why
    cdef int mask_count
    cdef long long[MASKS] masks

cdef class Tape:
    cdef void* head
    cdef void* tail
    cdef public long long count
    cdef public long long pending_bytes
    cdef public long long left
    cdef public long long arrived_bytes
    cdef public long long watermark
    cdef public Mode mode
    cdef public object running

cdef class Mode:
    cdef public bint grad
    cdef public bint inference
    cdef public bint eager
    cdef public bint anomaly
    cdef public long long walk
    cdef public bint chosen
    cdef public tuple duals
    cdef public object saved_hooks
    cdef public object extra

cdef class Node:
    # What every pass over a large graph reads stands in the first two cache lines.
    cdef readonly OpRow row
    cdef public tuple inputs
    cdef public tuple edges
    cdef readonly tuple shape
    cdef readonly object params
    cdef public Node quotient
    cdef public object scratch
    cdef readonly long long seq
    cdef public long long qrow
    # From here to `tape`: zero in a new node.
    cdef public int state
    cdef public int live
    cdef public int members
    cdef public unsigned char released
    cdef public unsigned char batched
    cdef public unsigned char holds
    cdef public unsigned char considered
    cdef public long long mark
    cdef public long long count
    cdef public long long index
    cdef void* next
    cdef void* previous
    cdef public long long saved
    cdef public long long offset
    cdef void* tape
    cdef readonly long long numel
    cdef readonly DType dtype
    cdef readonly object code
    cdef readonly int offset_in_code
    cdef public object payload
    cdef public object info
    cdef public object buffer
    cdef public tuple strides
    cdef public Node result
    cdef public object error
    cdef public object observers

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

cdef Tape current_tape()
cdef Node new_node(OpRow row, tuple inputs, object params, tuple shape, long long numel, DType dtype, tuple edges)
cdef Node append(Tape tape, OpRow row, tuple inputs, object params, tuple shape, long long numel,
                 DType dtype, tuple edges)
cdef Node new_value(DType dtype, tuple shape, object buffer, long long offset)
cdef Node new_scalar(object value, DType dtype)
cpdef void finish(Node node) noexcept
cdef void show_records(Node record, Node root)
cdef AccumulateGrad new_sink(object variable, void** known_at)
cdef long long count_elements(tuple shape)
cdef void drain() noexcept
cdef void note_idle(Node node) noexcept
cdef void bury(object child) noexcept
cdef void end_burial() noexcept
cpdef void acquire_saves(Node node, tuple edges) noexcept
cpdef void release_saves(Node node) noexcept
cpdef void drop_inputs(Node node)

cdef OpRow _value_row
cdef OpRow _scalar_row
cdef Tape _current
cdef unsigned long long _current_id
cdef long long _sequence
cdef bint _draining
cdef PyObject** _graveyard
cdef Py_ssize_t _buried
cdef Py_ssize_t _room
cdef long long _live
cdef PyObject* _pool[POOL]
cdef Py_ssize_t _waiting
cdef destructor _free_node
cdef PyObject* _sinks[SINKS]
cdef Py_ssize_t _sinks_waiting
cdef destructor _free_sink
cdef int _view_kind
cdef int _ambient
cdef object _packer
