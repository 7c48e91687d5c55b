# LAPACK and BLAS as Fortran has them: every argument is an address, the element type is in the routine's name.
ctypedef void (*gesv_routine)(int* n, int* columns, void* a, int* lda, int* pivots, void* b, int* ldb, int* info) noexcept nogil
ctypedef void (*getrf_routine)(int* m, int* n, void* a, int* lda, int* pivots, int* info) noexcept nogil
ctypedef void (*potrf_routine)(char* triangle, int* n, void* a, int* lda, int* info) noexcept nogil
ctypedef void (*potrs_routine)(char* triangle, int* n, int* columns, void* a, int* lda, void* b, int* ldb, int* info) noexcept nogil
ctypedef void (*trsm_routine)(char* side, char* triangle, char* transposed, char* diagonal, int* m, int* n, void* factor, void* a, int* lda, void* b, int* ldb) noexcept nogil

# Matrices that lie by columns, one behind the other.
ctypedef struct Batch:
    size_t address
    size_t step  # bytes of a matrix
    Py_ssize_t count
    int columns
    int rows

cdef inline void* matrix(Batch batch, Py_ssize_t number) noexcept nogil:
    """The address of one."""
    return <void*>(batch.address + number * batch.step)
