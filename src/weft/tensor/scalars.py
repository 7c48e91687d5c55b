# cython: language_level=3
"""Numbers as operands: which objects count as one, and the type that each brings into promotion; and
the attributes that users set on a handle.

Called for every operation with a number, so compiled. NumPy scalars count like the Python number of
their kind.
"""

import cython
import numpy
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.tensor.scalars import PyObject_GenericGetDict, PyObject_GenericSetDict

from weft._build.compiled import require
from weft.engine.ir import dtype as dtypes

require(__name__, cython.compiled)

_generic = numpy.generic
_int64: DType = dtypes.int64
_bool: DType = dtypes.bool_


def is_scalar(value):
    """True if an operand is a number."""
    if isinstance(value, (float, int, complex)):
        return True
    return isinstance(value, _generic) and value.dtype.kind in "biufc"


def scalar_dtype(value):
    """The type that a number promotes with: bool, int64, the default float or its complex type."""
    if isinstance(value, float):
        return dtypes.get_default()
    if isinstance(value, int):
        return _bool if isinstance(value, bool) else _int64
    if isinstance(value, _generic):
        return _of_kind(value.dtype.kind)
    return dtypes.of_scalar(value)


def _of_kind(kind):
    if kind == "b":
        return _bool
    if kind in "iu":
        return _int64
    return dtypes.get_default() if kind == "f" else dtypes.get_default().to_complex()


def attributes(handle):
    """`handle.__dict__`: compiled classes do not show theirs by themselves."""
    return PyObject_GenericGetDict(handle, cython.NULL)


def set_attributes(handle, values):
    """`handle.__dict__ = values`: the handle's attributes are those of a dictionary, which it shares from then on."""
    PyObject_GenericSetDict(handle, values, cython.NULL)


METHODS = {"__dict__": property(attributes, set_attributes)}
