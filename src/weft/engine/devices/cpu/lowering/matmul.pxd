from weft.engine.ir.node cimport Node
from weft.engine.pipeline.launch_ir cimport Lowering

cdef struct Product:
    # The arguments of a kernel for one product, without its batch: sizes, then steps of rows and columns.
    long long m, n, k
    long long a_row, a_column
    long long b_row, b_column
    long long c_row
    long long b_slot, b_offset  # region of the right operand

cdef void lower_matmul(Lowering lowering, Node node)
