from weft.engine.ir.primitive cimport Primitive

cdef enum:
    ROOM = 64  # cuts that are remembered
    MOST_PARTS = 64  # of one that is

cdef class Region:
    cdef readonly object params
    cdef readonly tuple shape
    cdef tuple strides
    cdef tuple steps
    cdef long long start
    cdef long long numel

cdef class Cut:
    cdef Primitive op
    cdef tuple shape
    cdef Py_ssize_t axis
    cdef object key
    cdef tuple payload
    cdef readonly tuple regions

cdef class Joint:
    cdef readonly Cut cut
    cdef public object seen

cdef Region new_region(Primitive op, object params, tuple shape, tuple strides, long long start)
cdef Cut new_cut(Primitive op, tuple shape, Py_ssize_t axis, object key, list regions)
cdef Cut known_cut(Primitive op, tuple shape, Py_ssize_t axis, object key)
cdef void keep_cut(Cut cut)
cdef Joint new_joint(Cut cut)
