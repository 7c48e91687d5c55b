from weft.graph.dtype cimport DType
from weft.graph.node cimport Node
from weft.graph.reuse cimport Waiting
from weft.graph.rows cimport OpRow
from weft.graph.tape cimport Tape

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(void*)

cdef enum:
    POOL = 32768  # dead nodes that wait to be used again

# Take a part of a node from the cyclic collector's lists: it cannot look into the node that holds it, and going through
# the parts of a large graph again and again costs more than recording it.
cdef inline void hide(tuple part) noexcept:
    if part is not None:
        PyObject_GC_UnTrack(<void*>part)

cdef Node new_node(OpRow row, tuple inputs, object params, tuple shape, long long numel, DType dtype, tuple edges)
cdef Node append(Tape tape, OpRow row, tuple inputs, object params, tuple shape, long long numel,
                 DType dtype, tuple edges)
cdef Node append_copy(Tape tape, Node template, tuple inputs, tuple shape, long long numel)
cdef void show_records(Node record, Node root)
cdef Node new_value(DType dtype, tuple shape, object buffer, long long offset)
cdef Node new_scalar(object value, DType dtype)
cdef long long count_elements(tuple shape)

cdef long long _live
cdef bint _danger
cdef Waiting _dead_nodes
