from weft.engine.ir.node cimport Node
from weft.engine.ir.tape cimport Tape

cdef void execute(Tape tape)
cdef void execute_alone(Tape tape, Node wanted)
