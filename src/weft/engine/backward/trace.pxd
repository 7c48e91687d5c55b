from cpython.object cimport PyObject
from weft.engine.replay.cache cimport Entry

# Where an operand comes from: the kind, the number of an input << 3, the number of a step, record, root or number << 16.
cdef enum:
    MADE = 0  # by a step of the script
    RECORD = 1  # the value of a record
    INPUT = 2  # an input that a record saves
    RESULT = 3  # the value that a composite record stands for
    ROOT = 4  # the cotangent of a root
    NUMBER = 5

# One operation, or a leaf that gets its gradient (`leaf` is its number then, else -1). The script holds the objects.
cdef struct Step:
    PyObject* row
    PyObject* params
    PyObject* shape
    PyObject* dtype
    long long numel
    int way  # from the user's line through the library, as in `Node.offset_in_code`
    int leaf
    bint considered
    Py_ssize_t first  # where its operands begin
    Py_ssize_t arity

cdef class Script(Entry):
    cdef Step* steps
    cdef Py_ssize_t count
    cdef long long* operands
    cdef list numbers  # (number, dtype)
    cdef list held
    cdef bint among_batches  # what else was pending has become batches: it is looked at before each walk
    cdef int allot(self, Py_ssize_t steps, Py_ssize_t operands) except -1
