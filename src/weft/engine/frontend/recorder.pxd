from cpython.object cimport PyObject
from weft.engine.ir.dtype cimport DType
from weft.engine.ir.primitive cimport Primitive
from weft.engine.frontend.tensor cimport Tensor

cdef extern from "Python.h":
    PyObject* PyTuple_GET_ITEM(object, Py_ssize_t)

cdef enum:
    RULE_PROMOTE = 0
    RULE_TO_FLOAT = 1
    RULE_COMPARE = 2
    RULE_LOGICAL = 3
    RULE_INTEGRAL = 4
    RULE_SELECT = 5

cdef int check_budget() except -1
cdef Tensor record_unary(Primitive op, Tensor x, object params)
cdef object binary(Primitive op, object a, object b)
cpdef cast(Tensor tensor, DType dtype)
cpdef record(Primitive op, tuple tensors, object params, tuple shape, DType dtype)
cpdef record_elementwise(Primitive op, tuple operands, object params)

cdef DType _bool
cdef long long _budget_nodes
cdef long long _budget_bytes
cdef bint _inference_used
