from weft.graph.dtype cimport DType
from weft.graph.node cimport Node

cdef class Value:
    cdef readonly Node node
    cdef Kernel kernel  # that computes it, before merges
    cdef Kernel reader  # the only one that reads it, element by element
    cdef Kernel last_reader  # None where several read it last, at one position
    cdef readonly int slot
    cdef readonly int last_use  # the position of the last kernel that reads it
    cdef bint kept
    cdef bint stored
    cdef bint read

cdef class Place:
    cdef readonly Value value
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
    cdef readonly list values
    cdef public list external
    cdef public set kept
    cdef public set viewed
    cdef public bint provisional
    cdef public list apart

    cpdef release(self)
    cdef Place new_value(self, Node node, tuple strides)

cdef Place region(Place place, long long offset, tuple strides)
cdef Kernel maker(Place place)
