# cython: language_level=3
"""Size, the type of `Tensor.shape`: a tuple of sizes that knows how many elements it stands for.

Slicing, adding and repeating Sizes gives Sizes. Compiled, and with its subscript set in the type itself, because
programs read `x.shape[i]` all the time.
"""

import math

import cython
from cython.cimports.cpython.ref import Py_INCREF
from cython.cimports.cpython.tuple import PyTuple_GET_SIZE, PyTuple_SET_ITEM
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.tensor.size import PyType_Modified, PyTypeObject

from weft._build.compiled import require
from weft.errors import ArgumentTypeError, DimensionError, rooted

require(__name__, cython.compiled)


class Size(tuple):
    """The sizes of a tensor, one per dimension. Errors: TypeError on what is not an integer.

    Args:
        sizes: integers; none: the shape of a number.

    Example:
        >>> import weft
        >>> weft.Size([2, 3]).numel()
        6
    """

    __slots__ = ()

    def __new__(cls, sizes=()):
        checked: list = []
        for size in sizes:
            if not hasattr(type(size), "__index__"):
                raise ArgumentTypeError(
                    "weft.Size",
                    expected="integers",
                    got=type(size).__name__,
                    fix="convert with int()",
                )
            checked.append(size.__index__())
        return of_shape(tuple(checked))

    def numel(self):
        """The number of elements."""
        return math.prod(self)

    def __add__(self, other):
        if isinstance(other, tuple):
            return of_shape(tuple.__add__(self, tuple(other)))
        return NotImplemented

    def __radd__(self, other):
        if isinstance(other, tuple):
            return of_shape(tuple.__add__(tuple(other), self))
        return NotImplemented

    def __mul__(self, count):
        return of_shape(tuple.__mul__(self, count))

    def __rmul__(self, count):
        return of_shape(tuple.__mul__(self, count))

    def __repr__(self):
        return rooted(f"weft.Size({list(self)})")

    def __reduce__(self):
        return (Size, (tuple(self),))


def of_shape(shape: tuple):
    """A Size without the checks; `shape` holds integers."""
    count: cython.Py_ssize_t = PyTuple_GET_SIZE(shape)
    made = _size_type.tp_alloc(_size_type, count)
    index: cython.Py_ssize_t
    for index in range(count):
        size = shape[index]
        Py_INCREF(size)
        PyTuple_SET_ITEM(made, index, size)
    return made


def size(self: Tensor, dim=None):
    """The sizes of all dimensions, or of one. Errors: IndexError where there is no such dimension."""
    if dim is None:
        return of_shape(self._shape)
    rank: cython.Py_ssize_t = len(self._shape)
    axis: cython.Py_ssize_t = dim
    if axis < 0:
        axis += rank
    if axis < 0 or axis >= rank:
        bound = max(rank, 1)
        raise DimensionError(
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})",
            expected=f"a dimension of a tensor of rank {rank}",
            got=str(dim),
            fix="check the tensor's rank",
        )
    return self._shape[axis]


METHODS = {"size": size}


@cython.cfunc
def _subscript(self: object, index: object) -> object:
    result = _tuple_subscript(self, index)
    return of_shape(result) if isinstance(index, slice) else result


_size_type = cython.cast(cython.pointer(PyTypeObject), Size)
_tuple_subscript = cython.cast(cython.pointer(PyTypeObject), tuple).tp_as_mapping.mp_subscript
_size_type.tp_as_mapping.mp_subscript = _subscript
PyType_Modified(_size_type)
