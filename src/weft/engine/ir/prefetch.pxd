# A graph of tens of thousands of nodes does not fit the nearest caches, and passes over it wait for memory more than they
# compute. They ask for what they will read a few steps ahead.

from cpython.object cimport PyObject
from weft.engine.ir.node cimport Node

cdef extern from *:
    """
    #if defined(__GNUC__)
    /* The empty assembly is a side effect: without one, GCC drops a function that only prefetches. */
    #define weft_prefetch(address) do { __builtin_prefetch(address); __asm__ volatile(""); } while (0)
    #else
    #define weft_prefetch(address) ((void)(address))
    #endif
    """
    void prefetch "weft_prefetch"(void* address) nogil

cdef extern from "Python.h":
    ctypedef struct PyTypeObject
    PyTypeObject* Py_TYPE(PyObject*)
    PyObject* PyList_GET_ITEM(object, Py_ssize_t)
    Py_ssize_t PyList_GET_SIZE(object)
    PyObject* PyTuple_GET_ITEM(object, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(object)

cdef enum:
    FAR = 9  # steps ahead at which a node is prefetched
    NEAR = 6  # steps ahead for the tuple of its inputs or edges
    NEXT = 3  # steps ahead for the objects that these point to

# Ask for the part of a node that passes read.
cdef inline void prefetch_node(void* node) noexcept:
    prefetch(node)
    prefetch(<char*>node + 64)
    prefetch(<char*>node + 128)
    prefetch(<char*>node + 192)

# Ask for what the first parts of a tuple point to.
cdef inline void prefetch_parts(tuple parts) noexcept:
    cdef Py_ssize_t index
    for index in range(min(PyTuple_GET_SIZE(parts), 3)):
        prefetch(<void*>PyTuple_GET_ITEM(parts, index))
        prefetch(<char*>PyTuple_GET_ITEM(parts, index) + 64)

# Ask for the nodes that come soon in a list, and for their inputs.
cdef inline void prefetch_inputs(list nodes, Py_ssize_t position) noexcept:
    if position + FAR < PyList_GET_SIZE(nodes):
        prefetch_node(<void*>PyList_GET_ITEM(nodes, position + FAR))
        prefetch(<void*>(<Node>PyList_GET_ITEM(nodes, position + NEAR)).inputs)

# The same, and for where their gradient edges lead from.
cdef inline void prefetch_operands(list nodes, Py_ssize_t position) noexcept:
    prefetch_inputs(nodes, position)
    if position + FAR < PyList_GET_SIZE(nodes):
        prefetch(<void*>(<Node>PyList_GET_ITEM(nodes, position + NEAR)).edges)

# The nodes, and what the inputs are.
cdef inline void prefetch_sources(list nodes, Py_ssize_t position) noexcept:
    cdef Node node
    prefetch_inputs(nodes, position)
    if position + FAR < PyList_GET_SIZE(nodes):
        node = <Node>PyList_GET_ITEM(nodes, position + NEXT)
        if node.inputs is not None:
            prefetch_parts(node.inputs)

# Ask for the gradient records that come soon in a list, for their edges, and for where these lead.
cdef inline void prefetch_edges(list records, Py_ssize_t position) noexcept:
    cdef object record
    if position + FAR < PyList_GET_SIZE(records):
        prefetch_node(<void*>PyList_GET_ITEM(records, position + FAR))
        record = <object>PyList_GET_ITEM(records, position + NEAR)
        if isinstance(record, Node):
            prefetch(<void*>(<Node>record).edges)
        record = <object>PyList_GET_ITEM(records, position + NEXT)
        if isinstance(record, Node) and (<Node>record).edges is not None:
            prefetch_parts((<Node>record).edges)
