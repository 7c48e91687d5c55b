from weft.engine.ir.node cimport Node
from weft.engine.ir.tape cimport Tape

cdef void execute(Tape tape)
cdef void execute_alone(Tape tape, Node wanted)
cdef void execute_older(Tape tape, long long newest)
cdef long long initial_values(list nodes, long long watermark) except -1
