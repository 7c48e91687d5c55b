from weft.engine.capi.int_array cimport Integers

cdef class SegmentIndex:
    cdef Integers numbers
    cdef Integers rows
    cdef Integers offsets

cdef SegmentIndex segment_index_of(Integers numbers, Integers rows, Integers offsets)
