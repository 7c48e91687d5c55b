cdef struct GemmChoice:
    long long units
    long long grain_size
    long long rows  # of one unit
    long long columns

cdef class Variant:
    cdef readonly str name
    cdef list specs
    cdef bint swapped
    cdef long long narrow
    cdef long long flat_rows
    cdef long long unit_rows
    cdef long long width
    cdef long long reading

cdef class Tile:
    cdef str dtype
    cdef object target
    cdef dict variants
    cdef Variant integers  # the only one of a dtype without fused products
    cdef long long rows, vectors, columns
    cdef bint native, real
    cdef list broad  # for each number of rows: vectors of columns in one panel

    cdef Variant variant(self, int kind, long long few, bint swapped)
    cdef Variant pick(self, long long m, long long n, bint a_along, bint b_along)

cdef Tile tile_of(str dtype, object target=*)
cdef GemmChoice choose(Variant variant, long long batch, long long m, long long n, long long k) noexcept
