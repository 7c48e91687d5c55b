from cpython.object cimport PyObject
from weft.engine.capi.growable_array cimport Array
from weft.engine.ir.node cimport Node
from weft.engine.ir.tape cimport Tape
from weft.engine.replay.cache cimport CacheEntry

cdef enum:
    NOTHING = -(1 << 30)  # in place of an operand: an edge without a target

# One node. An operand, and an edge, is a number: of a value that the client gives (then of a constant), or minus one
# minus that of a step before. The trace holds the objects.
cdef struct Step:
    PyObject* op
    PyObject* params
    PyObject* shape
    PyObject* dtype
    PyObject* operand_shapes
    PyObject* grad_name
    long long numel
    unsigned int library_site
    int whole  # the step behind which a gradient record stands, or -1
    int arity
    int edges  # how many gradient edges, behind the operands; -1: none
    Py_ssize_t first  # where its operands begin
    bint batch_seen

cdef class Replay:
    cdef Tape tape
    cdef list values
    cdef list edges
    cdef list made
    cdef object code
    cdef int offset_in_code
    cdef tuple shape  # of all steps; None: each has its own
    cdef bint hold

cdef class Trace(CacheEntry):
    cdef Step* steps
    cdef Py_ssize_t count
    cdef Array operands
    cdef list held
    cdef list constants  # handles, so that nothing takes their memory
    cdef int allot(self, Py_ssize_t steps) except -1
    cdef int begin(self, Replay run) except -1
    cdef int record(self, Replay run, Py_ssize_t begin, Py_ssize_t end) except -1
    cdef int record_edges(self, Replay run, Step* step, Node node) except -1
    cdef Py_ssize_t size(self) noexcept

# The node behind a number.
cdef inline object entry_of(long long number, list given, list made):
    return given[number] if number >= 0 else made[-1 - number]
