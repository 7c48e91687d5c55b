from libc.stdint cimport int64_t

from weft.engine.ir.node cimport Node
from weft.engine.pipeline.launch_ir cimport KernelSpec

cdef enum:
    MOST_OPERANDS = 4  # of a node that is called directly, at most
    MOST_RANK = 6  # axes of a node at most, before they are merged
    KEY_WORDS = 6  # of a key: a head, a word for each operand, the classes of their axes
    CALL_SLOTS = 1024  # of the hash table of calls
    BLOCK_RESULT = 32  # bytes that a block of a reduction to one element leaves for its end
    MOST_BLOCKS = 30  # that leave it in a frame
    BLOCK_BYTES = BLOCK_RESULT * MOST_BLOCKS + 64

cdef struct Loop:
    # A node as the loop nest that runs it: sizes of axes, the reduced ones last, and steps along them of each operand and of the result.
    Py_ssize_t rank
    Py_ssize_t reduced
    Py_ssize_t count  # operands
    long long dims[MOST_RANK]
    long long steps[(MOST_OPERANDS + 1) * MOST_RANK]
    long long key[KEY_WORDS]

cdef struct CallFrame:
    # What a kernel is called with, and memory for the numbers that it reads.
    void* pointers[MOST_OPERANDS + 2]
    int64_t arguments[(MOST_OPERANDS + 2) * MOST_RANK]
    long long numbers[2 * MOST_OPERANDS]
    char blocks[BLOCK_BYTES]  # what the blocks of a reduction to one element leave for its end

cdef class LoopCall:
    # A kernel by what it is specialised on, and which operands it reads, in its own order.
    cdef long long key[KEY_WORDS]
    cdef KernelSpec spec
    cdef Py_ssize_t count
    cdef Py_ssize_t body_count  # operations on each element
    cdef int operands[MOST_OPERANDS]

cdef bint call_loop(Node node)
cdef bint call_put(Node node)
cdef bint call_join(Node node)
cdef bint call_layout(Node node)
cdef bint call_kernel(Node node)
cdef bint call_source(Node node)
