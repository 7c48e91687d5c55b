from weft.engine.ir.node cimport Node
from weft.engine.ir.primitive cimport Primitive

cdef enum:
    RESULT = -1  # like `ARRIVING`, the code of an operand of a direct rule: the node's result

cdef list vjp_direct(Node node, object g)
cdef object vjp_direct_of(Primitive op, Py_ssize_t index, object g, tuple shape, list inputs, object result)

# The base of the scope of a derivative rule, by its op and which operand it is for: that of no other call. Its
# highest bit says that it is a rule's (`capi.call_site`).
cdef inline unsigned int base_of_rule(Primitive op, Py_ssize_t index) noexcept:
    return ((<unsigned int>(op.code * 8 + index) << 16) + 0x10000) | 0x80000000U
