from weft.engine.capi.growable_array cimport Array
from weft.engine.ir.node cimport Node
from weft.engine.pipeline.fingerprint cimport FlushFingerprint
from weft.engine.replay.recorder cimport Recorder
from weft.engine.replay.trace cimport Replay, Trace

cdef class GroupTrace(Trace):
    cdef object outcome  # what the search gave
    cdef list infos  # of each step: (flags, rows, axis) of a batch, the terms of a gather, or None
    cdef Array saves  # of each step: the mask of its residuals, or -1
    cdef Array members  # position, step, row: which nodes are rows of what
    cdef Array sums  # position, whether it is done with: sums that others go on from
    cdef Array settled  # positions of views that have their place in the memory of a value
    cdef list regions  # (number of the first value, dtype, shape) of values that lie behind one another

    cdef Replay begin_replay(self, FlushFingerprint found)
    cdef void record_all(self, Replay run)
    cdef void settle(self, list nodes)
    cdef void find_regions(self, list values)
    cdef void record_batches(self, list made)
    cdef void join(self, list nodes, list made)

cdef class Grouping(Recorder):
    cdef FlushFingerprint found
    cdef long long look
    cdef long long start
    cdef dict scalars
    cdef dict regions
    cdef GroupTrace known

    cdef object replay(self)
    cdef void learn(self, object outcome)
    cdef GroupTrace write_groups(self, object outcome)
    cdef bint write_steps(self, GroupTrace trace, list made) except -1
    cdef bint write_nodes(self, GroupTrace trace) except -1
    cdef object region_of(self, Node source)

cdef Grouping recall(list nodes)
