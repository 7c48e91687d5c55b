from weft.engine.backward.sequence_heap cimport SequenceHeap
from weft.engine.backward.reachability cimport Reachability
from weft.engine.backward.batching.batched_vjp cimport Group
from weft.engine.ir.node cimport Node
from weft.engine.ir.tape cimport Tape
from weft.engine.ir.grad_edges cimport AccumulateGrad
from weft.engine.frontend.tensor cimport Tensor

cdef class ReadyQueue(Reachability):
    cdef bint batched  # true if one rule serves the members of a batch
    cdef bint merges  # and equal batches of different rounds too
    cdef SequenceHeap heap  # what is ready
    cdef list came  # by number: the contributions to each record outside of groups
    cdef list groups
    cdef dict ready_groups
    cdef list fresh  # nodes that have not been considered for a batch
    cdef Tape narrow  # where all that is reached is one graph without batches: it is not brought together either
    cdef void start(self, list roots)
    cdef int join_group(self, Node node) except? -1
    cdef void close_groups(self)
    cdef void keep_captured(self)
    cdef void forget_groups(self)
    cdef bint split_stuck(self)
    cdef long long sequence_of(self, int number)
    cdef void split(self, Group group)
    cdef int give(self, int target, int output, Tensor tensor, int row) except? -1
    cdef object take(self, int number)
    cdef void give_parts(self, int number, tuple edges, list parts)
    cdef bint takes_rows(self, Node node, bint create, object watched)
    cdef void give_rows(self, int number, tuple edges, object g)
    cdef bint adds_up(self, Group group)
    cdef void scatter_rows(self, Group group, object g, bint apart)
    cdef int operands(self, int number) noexcept
    cdef void deliver_rows(self, Group members, int index, object part)
    cdef int target(self, Group members, Py_ssize_t member, Py_ssize_t index) noexcept
    cdef Group opposite(self, Group members, int index)
    cdef void release_group(self, Group group, long long consumers)
    cdef int release_if_done(self, int target) except? -1
    cdef void release_below(self, int number)
    cdef void ready(self, object current)
    cdef void push(self, Group group)
    cdef Group with_its_like(self, Group group)
    cdef void accumulate(self, AccumulateGrad sink)

cdef int output_of(object edge) except? -1
cdef bint is_sparse(Tensor tensor) noexcept
