from weft.engine.ir.tape cimport Tape

cdef set plain_kinds
cdef bint verifying  # whether what is known is done for real, too
cdef bint is_plain(Tape tape) except -1
