from cpython.object cimport PyObject
from weft.engine.devices.api cimport Device
from weft.engine.ir.node cimport Node
from weft.engine.capi.growable_array cimport Array

cdef extern from "Python.h":
    PyObject* PyList_GET_ITEM(object, Py_ssize_t)

cdef class ProgramValue:
    cdef readonly Node node
    cdef Kernel kernel  # that computes it, before merges
    cdef Kernel reader  # the only one that reads it, element by element
    cdef Kernel last_reader  # None where several read it last, at one position
    cdef readonly int slot
    cdef readonly int last_use  # the position of the last kernel that reads it
    cdef ProgramValue same  # an equal one that stands for it
    cdef bint kept
    cdef bint stored
    cdef bint read

cdef class MemRef:
    cdef readonly ProgramValue value
    cdef readonly Node root
    cdef readonly tuple shape
    cdef readonly tuple strides
    cdef readonly long long offset
    cdef readonly bint whole  # the value itself, element by element

cdef class Kernel:
    cdef public int kind
    cdef public tuple shape
    cdef public list nodes
    cdef public tuple axes
    cdef public tuple reduced_shape
    cdef public bint open
    cdef public bint is_row_kernel
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
    cdef readonly Device device  # that it runs on
    cdef readonly list roots  # the live nodes that it is for
    cdef public list order
    cdef readonly list numbered  # the nodes that have a number, by it
    cdef readonly list memrefs  # memory references by number; None where not yet known
    cdef long long stamp  # marks their numbers in `Node.index`
    cdef Array operands  # the places of what nodes read, one node's behind the other's
    cdef Array first  # by number: the first of a node's own operands, -1 if it has none
    cdef public dict expanded
    cdef public list kernels
    cdef readonly list values
    cdef public list external
    cdef public set kept
    cdef public set viewed
    cdef public set clones
    cdef public dict remat_of
    cdef public bint is_cold
    cdef public list split_kernels
    cdef public long long most_waits  # runs after which the kernels below are asked for at the latest, or 0
    cdef public list awaited  # the kernels it was taken apart for, all compiled in the background; or None

    cpdef release(self)
    cpdef int start_anew(self) except -1
    cpdef int number(self, Node node) except -1
    cpdef MemRef memref(self, Node node)
    cpdef list reads(self, Node node)
    cpdef int keep(self, Node node) except -1
    cpdef int add_kernel(self, Kernel kernel) except -1
    cpdef int set_memref(self, Node node, MemRef memref) except -1
    cpdef int connect_all(self) except -1
    cdef int connect(self, Node node) except -1
    cpdef MemRef new_value(self, Node node, tuple strides)
    cpdef int add_external(self, ProgramValue value) except -1

cdef MemRef region(MemRef memref, long long offset, tuple strides, tuple shape)
cdef Kernel maker(MemRef memref)
cdef tuple row_major(tuple shape)
cdef tuple strides_of(Node node)

# Whether a node has a number, and so a place once `fold_views` has given it one.
cdef inline bint has_memref(Program program, Node node) noexcept:
    return node.index >> 32 == program.stamp

# The memory reference of a node that has one.
cdef inline MemRef memref_of(Program program, Node node):
    return <MemRef>PyList_GET_ITEM(program.memrefs, node.index & 0xFFFFFFFFLL)

# The memory reference of an operand of a computed node.
cdef inline MemRef operand(Program program, Node node, Py_ssize_t number):
    return <MemRef><PyObject*>program.operands.words[program.first.words[node.index & 0xFFFFFFFFLL] + number]
