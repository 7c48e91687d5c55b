cdef enum:
    MASKS = 8  # a row has at most so many derivatives of its own; the last one stands for all that follow

    ARRIVING = -3  # among what a derivative reads: the arriving cotangent; -1 is the result, others are operands
    SOURCES = 4  # that a derivative as a row reads at most

cdef class Primitive:
    cdef readonly str name
    cdef readonly str grad_name
    cdef readonly int code
    cdef readonly int kind
    cdef readonly int rule
    cdef readonly tuple operands
    cdef readonly object shape
    cdef readonly object dtype
    cdef readonly object reference
    cdef readonly tuple vjps
    cdef readonly tuple residuals
    cdef readonly tuple batch_operands
    cdef readonly tuple residual_masks
    cdef readonly bint differentiable
    cdef readonly tuple dtypes
    cdef readonly unsigned long long dtype_bits
    cdef readonly bint batchable
    cdef readonly object jvp_kind
    cdef readonly object batch
    cdef readonly object is_row_independent
    cdef readonly object lower
    cdef readonly object strides
    cdef readonly object domain
    cdef readonly object why
    cdef public tuple direct  # `weft.ops.direct_vjps`: a `DirectVjp` or None for each operand; None: not asked for yet
    cdef int mask_count
    cdef long long[MASKS] masks

cdef class DirectVjp:
    # A derivative rule that is one row (None: the cotangent as it arrives), and what that reads.
    cdef readonly Primitive op
    cdef readonly tuple sources
    cdef int count
    cdef int[SOURCES] numbers

cdef Primitive value_op
cdef Primitive scalar_op
