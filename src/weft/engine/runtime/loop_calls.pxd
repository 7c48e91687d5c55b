from libc.stdint cimport int64_t

from weft.engine.ir.node cimport Node
from weft.engine.pipeline.launch_ir cimport KernelSpec

cdef enum:
    OPERANDS = 4  # of a node that is called directly
    RANK = 6  # its axes, before they are joined
    KEY_WORDS = 6  # of a key: a head, a word for each operand, the classes of their axes
    SLOTS = 1024  # of the table of calls
    BLOCK_BYTES = 1024

cdef struct Loop:
    # A node as the loop nest that runs it: sizes of axes, the reduced ones last, and steps along them of each operand and of the result.
    Py_ssize_t rank
    Py_ssize_t reduced
    Py_ssize_t count  # operands
    long long dims[RANK]
    long long steps[(OPERANDS + 1) * RANK]
    long long key[KEY_WORDS]

cdef struct CallFrame:
    # What a kernel is called with, and memory for the numbers that it reads.
    void* pointers[OPERANDS + 2]
    int64_t arguments[(OPERANDS + 2) * RANK]
    long long numbers[2 * OPERANDS]
    char blocks[BLOCK_BYTES]  # what the blocks of a reduction to one element leave for its end

cdef class LoopCall:
    # A kernel by what it is specialised on, and which operands it reads, in its own order.
    cdef long long key[KEY_WORDS]
    cdef KernelSpec spec
    cdef Py_ssize_t count
    cdef int operands[OPERANDS]

cdef bint call_loop(Node node)
cdef bint call_put(Node node)
