from weft.graph.dtype cimport DType
from weft.graph.node cimport Node

cdef class Place:
    cdef readonly Node root
    cdef readonly long long offset
    cdef readonly tuple strides

cdef class Kernel:
    cdef public int kind
    cdef public tuple shape
    cdef public list nodes
    cdef public tuple axes
    cdef public tuple reduced_shape
    cdef public bint open
    cdef public bint staged
    cdef public int position
    cdef public int first_consumer
    cdef public int last_consumer
    cdef public int first_indirect
    cdef public int body
    cdef public Kernel merged
    cdef public list stores
    cdef public list operands
    cdef public object extra
    cdef public object prepared

cdef class Program:
    cdef public list order
    cdef public dict places
    cdef public dict expanded
    cdef public list kernels
    cdef public dict producer
    cdef public list external
    cdef public set kept
    cdef public set viewed
    cdef public bint provisional
    cdef public list apart
