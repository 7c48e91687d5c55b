from cpython.object cimport PyObject
from weft.engine.ir.primitive cimport Primitive
from weft.engine.capi.vectorcall cimport Arguments, vectorcallfunc

cdef class Public:
    cdef vectorcallfunc vectorcall
    cdef readonly object function
    cdef readonly str record
    cdef Primitive unary
    cdef bint composed  # its calls may be replayed
    cdef bint single  # they record one operation at most
    cdef readonly object operand_types  # the rule about types of operands, if the function has one
    cdef dict operands  # where these stand among its parameters, by name; None until the first call
    cdef readonly frozenset numbers  # its parameters that no gradient could reach, if it has any
    cdef dict number_places  # where these stand, by name; None until the first call
    cdef bint computes  # with its operands, which have to be on one device
    cdef dict spellings  # names of keywords that were met, and what the function calls them

cdef object _enter(object self, Arguments arguments, size_t count, PyObject* names)
cdef object _enter_naming(object self, Arguments arguments, size_t count, PyObject* names)
