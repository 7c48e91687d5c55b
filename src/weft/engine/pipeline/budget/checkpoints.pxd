from weft.engine.ir.node cimport Node
from weft.engine.ir.tape cimport Tape
from weft.engine.pipeline.program_ir cimport Program

cdef bint any_deferred  # whether a node has ever stayed recorded

cdef class Recorded:
    cdef set staying
    cdef set checkpoints

    cdef bint stays(self, Node node)
    cdef bint is_checkpoint(self, Node node)

cdef Recorded recorded_of(Program program, object layout, list pending)
cdef void note_staying(Node node) noexcept
cdef void note_checkpoint(Node node)
cdef void keep_sources(Tape tape)
cdef void let_go(Tape tape)
cdef bint evict(Tape tape) except -1
cdef bint has_deferred(list nodes) noexcept
