from weft.engine.ir.primitive cimport Primitive

cdef enum:
    CACHED_SPLITS = 64  # split specs in the cache
    MOST_CACHED_OUTPUTS = 64  # of a split spec in the cache

cdef class OutputView:
    cdef readonly object params
    cdef readonly tuple shape
    cdef tuple strides
    cdef tuple steps
    cdef long long start
    cdef long long numel

cdef class SplitSpec:
    cdef Primitive op
    cdef tuple shape
    cdef Py_ssize_t axis
    cdef object key
    cdef tuple operand_shapes
    cdef readonly tuple regions

cdef class MultiOutput:
    cdef readonly SplitSpec cut
    cdef public object seen

cdef OutputView new_output_view(Primitive op, object params, tuple shape, tuple strides, long long start)
cdef SplitSpec new_split_spec(Primitive op, tuple shape, Py_ssize_t axis, object key, list regions)
cdef SplitSpec known_split_spec(Primitive op, tuple shape, Py_ssize_t axis, object key)
cdef void keep_split_spec(SplitSpec cut)
cdef MultiOutput new_multi_output(SplitSpec cut)
