from weft.engine.ir.tape cimport Tape

cdef set plain_kinds
cdef bint verifying  # true if replays are also done for real
cdef bint is_plain(Tape tape) except -1
