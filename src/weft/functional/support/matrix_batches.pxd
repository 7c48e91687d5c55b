# LAPACK and BLAS as Fortran has them: every argument is an address, the element type is in the routine's name.
ctypedef void (*gesv_routine)(int* n, int* columns, void* a, int* lda, int* pivots, void* b, int* ldb, int* info) noexcept nogil
ctypedef void (*getrf_routine)(int* m, int* n, void* a, int* lda, int* pivots, int* info) noexcept nogil
ctypedef void (*potrf_routine)(char* triangle, int* n, void* a, int* lda, int* info) noexcept nogil
ctypedef void (*trsm_routine)(char* side, char* triangle, char* turned, char* diagonal, int* m, int* n, void* factor, void* a, int* lda, void* b, int* ldb) noexcept nogil
ctypedef void (*gemm_routine)(char* left_turned, char* right_turned, int* m, int* n, int* k, void* factor, void* a, int* lda, void* b, int* ldb, void* kept, void* c, int* ldc) noexcept nogil
ctypedef void (*geqrf_routine)(int* m, int* n, void* a, int* lda, void* scales, void* work, int* room, int* info) noexcept nogil
ctypedef void (*orgqr_routine)(int* m, int* n, int* k, void* a, int* lda, void* scales, void* work, int* room, int* info) noexcept nogil
ctypedef void (*syevd_routine)(char* vectors, char* triangle, int* n, void* a, int* lda, void* values, void* work, int* room, int* places, int* more_room, int* info) noexcept nogil
ctypedef void (*gesdd_routine)(char* vectors, int* m, int* n, void* a, int* lda, void* values, void* u, int* ldu, void* vh, int* ldvh, void* work, int* room, int* places, int* info) noexcept nogil

cdef enum:
    ROUTINES = 10
    LETTERS = 4

cdef size_t _addresses[40]  # of routines by element type, once they have been asked for

cdef class Matrices:
    cdef object owner  # of the memory
    cdef size_t address
    cdef readonly tuple lead
    cdef readonly Py_ssize_t count
    cdef int rows, columns  # in memory, before the adjoint is taken
    cdef int item  # bytes of an element
    cdef int letter  # its type: the place in s, d, c, z
    cdef bint turned

    cdef void* at(self, Py_ssize_t number) noexcept nogil

cdef size_t routine_at(int which, int letter)
cdef object element_type(Matrices batch)
cdef Matrices blank(Matrices other, int rows, int columns)
cdef Matrices by_columns(Matrices source)
cdef Matrices from_columns(Matrices source)
cdef Matrices copied(Matrices source)
cdef void* number_at(int letter, int place)
