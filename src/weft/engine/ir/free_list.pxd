# A free list: dead objects of a class that wait to be reused, their empty fields in place, which spares
# making, writing and counting some fifteen references for each. Nodes, handles, gradient accumulators and
# tuples have one. `reuse` gives the class its tp_dealloc, which empties an object between `revive` and
# `keep`; `take` hands out the last one, if `count` says so. When many have died at once, `deferred_free`
# sorts them by address: the next graph is then recorded in one direction of memory.

from cpython.object cimport PyObject
from libc.string cimport memset
from weft.engine.ir.prefetch cimport NEXT, prefetch

cdef extern from "Python.h":
    ctypedef void (*destructor)(PyObject*) noexcept
    ctypedef struct PyTypeObject:
        destructor tp_dealloc
        Py_ssize_t tp_basicsize
    bint PyType_IS_GC(PyTypeObject*)
    void Py_SET_REFCNT(PyObject*, Py_ssize_t)

cdef enum:
    ROOM = 32768
    COLLECTOR = 16  # bytes of the cyclic collector's header before an object

cdef struct FreeList:
    PyObject* objects[ROOM]
    Py_ssize_t count
    Py_ssize_t ordered  # so many of them have not been handed out since they were put in order
    Py_ssize_t room
    Py_ssize_t before  # bytes of an object before its header
    Py_ssize_t size  # bytes from there on
    destructor free  # what frees an object for good

cdef inline void reuse(FreeList* waiting, object kind, destructor retire, Py_ssize_t room) noexcept:
    cdef PyTypeObject* slots = <PyTypeObject*><PyObject*>kind
    waiting.room = room
    waiting.before = COLLECTOR if PyType_IS_GC(slots) else 0
    waiting.size = slots.tp_basicsize
    waiting.free = slots.tp_dealloc
    slots.tp_dealloc = retire

cdef inline void revive(PyObject* dying) noexcept:
    Py_SET_REFCNT(dying, 1)

cdef inline void keep(FreeList* waiting, PyObject* dying) noexcept:
    Py_SET_REFCNT(dying, 0)
    if waiting.count < waiting.room:
        waiting.objects[waiting.count] = dying
        waiting.count += 1
    else:
        waiting.free(dying)

cdef inline object take(FreeList* waiting):
    cdef Py_ssize_t offset
    waiting.count -= 1
    if waiting.count < waiting.ordered:
        waiting.ordered = waiting.count
    if waiting.count >= NEXT:  # they were left where they died, far from each other
        for offset in range(-waiting.before, waiting.size, 64):
            prefetch(<char*>waiting.objects[waiting.count - NEXT] + offset)
        prefetch(<char*>waiting.objects[waiting.count - NEXT] + waiting.size - 1)
    return <object>waiting.objects[waiting.count]

# Zero the plain fields from the first to the last, which is a pointer.
cdef inline void zero(void* first, void** last) noexcept:
    memset(first, 0, <char*>(last + 1) - <char*>first)
