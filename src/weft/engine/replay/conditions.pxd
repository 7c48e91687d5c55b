from weft.engine.ir.tape cimport Tape

cdef set plain_kinds
cdef bint is_plain(Tape tape) except -1
