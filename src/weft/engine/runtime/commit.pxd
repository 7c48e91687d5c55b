from weft.engine.ir.node cimport Node
from weft.engine.pipeline.budget.checkpoints cimport Recorded
from weft.engine.pipeline.program_ir cimport Program

cdef class FlushCounters:
    cdef long long flushes
    cdef long long kernels
    cdef long long launches
    cdef long long nodes
    cdef long long failures

cpdef note_failure(Node node, object error)
cdef list decide(Program program, dict failed, Py_ssize_t finished, list gone, Recorded recorded)
cdef void commit(list commits, list gone, object run, Recorded recorded)
cdef void leave(Node node, bint checkpoint)
