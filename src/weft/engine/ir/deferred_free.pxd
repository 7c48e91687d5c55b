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
    CROWD = 512  # so many that have died are put in order
    SPARSE_WORDS = 32  # of the map for each of them: where they lie farther apart, they stay as they are
    STEP_BITS = 4  # objects begin at multiples of 16 bytes

cdef FreeList* _pools[POOLS]
cdef Py_ssize_t _pool_count
cdef unsigned long long* _map  # where dead objects lie; zero outside of `_arrange`, as the other
cdef unsigned long long* _map_of_words  # which words of it have something
cdef Py_ssize_t _map_room  # in words

# Free what was buried, unless a loop above already does.
cdef inline void end_burial() noexcept:
    if not _draining and _buried > 0:
        drain()
