from libc.stdint cimport uintptr_t

from weft.engine.ir.node cimport Node
from weft.engine.pipeline.launch_ir cimport Lowering

cdef enum:
    _WORDS = 4  # of a batch dimension: its size, its steps in A, B, C
    _ARGUMENTS = 13  # of a kernel
    _BATCH_WORDS = 32  # of all batch dimensions of a product that is called directly

cdef struct Product:
    # The arguments of a kernel for one product, without its batch: sizes, then steps of rows and columns.
    long long m, n, k
    long long a_row, a_column
    long long b_row, b_column
    long long c_row
    long long b_slot, b_offset  # region of the right operand

cdef void lower_matmul(Lowering lowering, Node node)
cdef bint call_matmul(Node node, uintptr_t target)
