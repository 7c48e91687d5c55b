cdef enum:
    MASKS = 8  # derivatives of its own that an op may have; the last one stands for all that follow

    ARRIVING = -3  # as an operand of a derivative rule: the arriving cotangent; -1 is the result
    SOURCES = 4  # operands at most of a derivative that is an op

# What an operation of a kind is, where the passes ask: each form belongs to one kind (`FORMS` in primitive.py).
cdef enum:
    NO_FORM = 0
    RESHAPE  # views: the same elements in the same order
    PERMUTE
    EXPAND
    SLICE
    SELECT
    STRIDED  # counts in the row-major order of its operand
    OTHER_VIEW
    UPDATE  # regions: the first operand with the second one written into it
    CONCAT  # the operands behind each other along a dimension
    STACK  # and along a new one
    MATMUL  # products: a @ b
    LINEAR  # x @ weight.T, and a bias where there is a third operand
    ATTENTION
    ATTENTION_GRADIENT
    ELEMENTS  # indices and scatters: an index for each element
    SLICES  # an index for each slice along a dimension
    CUMULATIVE  # scans
    ORDER
    RUNNING
    RESAMPLE
    RESAMPLE_TRANSPOSED

# What an operation adds up.
cdef enum:
    NO_SUM = 0
    OF_OPERANDS  # its two operands, element by element
    OF_ELEMENTS  # elements of its operand along dimensions
    INTO_BASE  # the source, into elements of its first operand

# What is known of the elements of an index before they are computed: they are below
cdef enum:
    NO_BOUND = 0
    BY_REDUCED  # the number of elements that were reduced to one
    BY_COUNT  # the number of elements of the result
    BY_CHOICE  # the larger bound of the second and the third operand
    BY_OPERAND  # the bound of the operand, where it is of integers too

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
    cdef readonly int form
    cdef readonly int sums
    cdef readonly int index_bound
    cdef readonly bint is_identity_of_one  # with one operand, it is that operand
    cdef readonly bint is_variadic  # any number of operands, and its VJP gives the cotangents of all
    cdef readonly bint is_cast  # its dtype is what was asked for
    cdef readonly bint is_copy  # the elements of its operand, which lie as the caller says
    cdef readonly str combiner  # how a cumulative scan, or a scatter, combines elements: sum, add, maximum ...
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
