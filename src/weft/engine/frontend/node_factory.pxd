from weft.engine.ir.dtype cimport DType
from weft.engine.ir.memory cimport OwnedMemory
from weft.engine.ir.node cimport Node
from weft.engine.ir.free_list cimport FreeList
from weft.engine.ir.primitive cimport Primitive
from weft.engine.ir.tape cimport Tape

# Whether the collector has an object on a list: the first of the two words before it is not zero then.
cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030D0000
    #define weft_tracked(object) (((uintptr_t *)(object))[-2] != 0)
    #else
    #define weft_tracked(object) PyObject_GC_IsTracked((PyObject *)(object))
    #endif
    """
    bint tracked "weft_tracked"(void*) noexcept

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(void*)

cdef enum:
    FREE_NODES = 32768  # dead nodes in the free list
    CACHED_SHAPES = 64  # tuples of shapes in the cache

# Take a part of a node from the cyclic collector's lists: it cannot look into the node that holds it, and going through
# the parts of a large graph again and again costs more than recording it.
cdef inline void hide(tuple part) noexcept:
    if part is not None and tracked(<void*>part):
        PyObject_GC_UnTrack(<void*>part)

cpdef Node copy_over(Node node, int device)
cdef Node new_node(Primitive op, tuple inputs, object params, tuple shape, long long numel, DType dtype, tuple edges)
cdef Node append(Tape tape, Primitive op, tuple inputs, object params, tuple shape, long long numel,
                 DType dtype, tuple edges)
cdef Node append_again(Tape tape, Primitive op, tuple inputs, object params, tuple shape, long long numel,
                       DType dtype, object code, int offset_in_code, unsigned int library_site)
cdef Node new_record(Primitive op, object params, tuple shape, long long numel, DType dtype, tuple edges,
                     tuple operand_shapes, Node beside)
cdef void show_records(Node record, Node root)
cdef Node new_value(DType dtype, tuple shape, OwnedMemory buffer, long long offset)
cdef Node new_scalar(object value, DType dtype)
cdef long long count_elements(tuple shape)
cdef tuple shapes_of(tuple nodes)

cdef long long _live
cdef list _known_shapes
cdef bint _any_may_fail
cdef FreeList _dead_nodes
