from weft.engine.capi.growable_array cimport Array
from weft.engine.backward.replay.fingerprint cimport WalkFingerprint
from weft.engine.ir.node cimport Node
from weft.engine.replay.recorder cimport Recorder
from weft.engine.replay.trace cimport Replay, Trace

# Where a value of a walk comes from: the kind, the number of an input << 3, the number of a record or root << 16.
cdef enum:
    RECORD = 1  # of a source of the trace: the value of a record
    INPUT = 2  # an input that a record saves
    RESULT = 3  # the value that a composite record stands for
    ROOT = 4  # the cotangent of a root
    NUMBER = 5  # a constant of the trace

cdef class WalkTrace(Trace):
    cdef Array sources  # of the values, by number
    cdef Array deliveries  # gradients of leaves: the number of steps before, the leaf, the operand
    cdef bint among_batches  # true if other pending nodes have become batches: then batches are formed before each walk
    cdef bint narrow  # the walk that it was learned from was: its nodes are left alone
    cdef list values_of(self, WalkFingerprint outline)

cdef class WalkRecorder(Recorder):
    cdef WalkFingerprint outline
    cdef long long look
    cdef dict places  # value -> the code of its source
    cdef dict leaves
    cdef list journal
    cdef object flushes
    cdef long long start
    cdef bint among_batches
    cdef WalkTrace expected  # the known trace, to be compared with the walk
    cdef Replay run  # the replay that the trace is recorded with
    cdef list entries_of(self, list nodes)
    cdef void verify(self, list nodes, bint narrow)
    cdef WalkTrace write_walk(self, list nodes)
    cdef bint deliver(self, Node node, object sink) except -1
    cdef void find_places(self)
