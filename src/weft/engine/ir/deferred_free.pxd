from cpython.object cimport PyObject
from weft.engine.ir.free_list cimport FreeList

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define weft_lowest_bit(bits) __builtin_ctzll(bits)
    #else
    static inline int weft_lowest_bit(unsigned long long bits) {
        int place = 0;
        while (!(bits >> place & 1)) place++;
        return place;
    }
    #endif
    """
    int lowest_bit "weft_lowest_bit"(unsigned long long bits) noexcept

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject*)
    bint PyTuple_CheckExact(PyObject*)

cdef void bury(object child) noexcept
cdef void drain() noexcept
cdef void keep_in_order(FreeList* waiting) noexcept

cdef bint _draining
cdef PyObject** _graveyard
cdef Py_ssize_t _first  # the next to be freed; those before it are gone
cdef Py_ssize_t _buried
cdef Py_ssize_t _room

cdef enum:
    POOLS = 4
    FEWEST_SORTED = 512  # dead objects that are worth sorting by address
    SPARSE_WORDS = 32  # of the bitmap per dead object: objects that are farther apart stay unsorted
    STEP_BITS = 4  # log2 of 16 bytes, the alignment of objects

cdef FreeList* _pools[POOLS]
cdef Py_ssize_t _pool_count
cdef unsigned long long* _map  # a bitmap of dead objects; all zero outside of `_arrange`, as is the other map
cdef unsigned long long* _map_of_words  # a bitmap of its words that are not zero
cdef Py_ssize_t _map_room  # in words

# Free what was buried, unless a loop above already does.
cdef inline void end_burial() noexcept:
    if not _draining and _buried > 0:
        drain()
