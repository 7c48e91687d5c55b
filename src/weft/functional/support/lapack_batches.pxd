from weft.functional.support.matrix_batches cimport Matrices

cdef Matrices first_rows(Matrices batch, int rows)
cdef int* ints_of(object array)
