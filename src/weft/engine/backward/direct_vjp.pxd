from weft.engine.ir.node cimport Node
from weft.engine.ir.primitive cimport Primitive

cdef enum:
    RESULT = -1  # like `ARRIVING`, the code of an operand of a direct rule: the node's result
    WAY_SHIFT = 18  # of `Node.offset_in_code`: above the instruction is the hash of the library path

cdef list vjp_direct(Node node, object g, tuple shapes)
cdef object vjp_direct_of(Primitive op, Py_ssize_t index, object g, tuple shape, list inputs, object result)
