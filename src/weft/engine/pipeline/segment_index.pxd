from weft.engine.capi.int_array cimport Integers

cdef class Terms:
    cdef Integers numbers
    cdef Integers rows
    cdef Integers offsets

cdef Terms terms_of(Integers numbers, Integers rows, Integers offsets)
