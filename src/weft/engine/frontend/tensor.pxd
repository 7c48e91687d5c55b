from cpython.object cimport PyObject
from weft.engine.ir.dtype cimport DType
from weft.engine.ir.node cimport Node

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject*)

cdef class UndoEntry:
    cdef void* storage
    cdef public list entries
    cdef public object kept

cdef class Storage:
    cdef public Node node
    cdef public long long version
    cdef public long long apart
    cdef public object foreign
    cdef public Node home
    cdef public object shown
    cdef UndoEntry undo

cdef class VersionCounter:
    cdef public long long version

cdef class Tensor:
    cdef Node node
    cdef public Storage _storage
    cdef readonly tuple _shape
    cdef readonly DType _dtype
    cdef public tuple strides
    cdef object edge
    cdef public Tensor base
    cdef public tuple view_chain
    cdef public Tensor _grad
    cdef public object hooks
    cdef public VersionCounter counter
    cdef object __weakref__
    # From here to `attributes`: zero in a new handle.
    cdef public long long offset
    cdef public long long version_seen
    cdef public int creation
    cdef public int view_transform
    cdef public bint leaf_grad
    cdef public bint retains
    cdef public bint inference
    cdef void* accumulator
    cdef void* attributes

cpdef void replace_node(Storage storage, Node node)
