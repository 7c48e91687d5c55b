from weft.engine.ir.node cimport Node
from weft.engine.ir.primitive cimport Primitive

cdef enum:
    RESULT = -1  # among what a direct rule reads, as `ARRIVING`
    WAY_SHIFT = 18  # of `Node.offset_in_code`: above the instruction stands the way through the library

cdef list vjp_direct(Node node, object g, tuple shapes)
cdef object vjp_direct_of(Primitive op, Py_ssize_t index, object g, tuple shape, list inputs, object result)
