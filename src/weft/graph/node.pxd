from weft.graph.dtype cimport DType
from weft.graph.rows cimport OpRow

cdef enum:
    PENDING = 0
    DONE = 1
    FAILED = 2
    RESULT_SHIFT = 40

cdef class Node:
    # What every pass over a large graph reads stands in the first 144 bytes (`prefetch_node`).
    cdef readonly OpRow row
    cdef public tuple inputs
    cdef public tuple edges
    cdef readonly tuple shape
    cdef readonly object params
    cdef public Node quotient
    cdef public object scratch
    cdef readonly long long seq
    cdef public long long qrow
    cdef readonly DType dtype
    cdef readonly long long numel
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
    cdef Py_ssize_t position  # where it stands on its tape
    cdef public long long saved
    cdef public long long offset
    cdef public long long bound
    cdef void* tape
    cdef public object observers
    cdef public object info
    cdef readonly object code
    cdef readonly int offset_in_code
    cdef public unsigned char risky
    cdef public object payload
    cdef public object buffer
    cdef public tuple strides
    cdef public Node result
    cdef public object error
