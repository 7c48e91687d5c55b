# cython: language_level=3
"""Numbers and nested lists of them as tensors that have their values, without an array in between; sizes as shapes.

Programs that run example by example make a tensor of every label, word and target, so that each is made often. What is
not as it is as a rule (other types, several types, ragged lists) is left to `data`, which knows the errors too.
"""

from typing import Any

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.weft.engine.capi.int_range import is_within
from cython.cimports.weft.engine.devices.cpu.pool import PooledBuffer, allocate
from cython.cimports.weft.engine.frontend.node_factory import new_value
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.node import Node

from weft._build.compiled import require
from weft.engine.frontend.node_factory import MOST_ELEMENTS
from weft.engine.ir import dtype as dtypes

require(__name__, cython.compiled)

_single = cython.declare(DType, dtypes.float32)
_double = cython.declare(DType, dtypes.float64)
_whole = cython.declare(DType, dtypes.int64)
_truth = cython.declare(DType, dtypes.bool_)
_LIMIT = cython.declare(cython.longlong, (1 << 62) - 1)
_EXACT = cython.declare(cython.longlong, 1 << 53)  # up to here a C double holds every integer
_MOST_DEPTH = cython.declare(cython.Py_ssize_t, 16)
_most = cython.declare(cython.longlong, MOST_ELEMENTS)
# Memory is taken before it is known whether the list is regular.
_MOST_READ = cython.declare(cython.longlong, 1 << 24)


@cython.ccall
def tensor_of_number(number: object, dtype: DType | None = None) -> Any:
    """A tensor of a Python float in the default type, or of a Python int as int64, unless a type is given; None where
    number or type are others."""
    node: Node = None
    if dtype is None:
        dtype = _kind_of(number)
    if dtype is _whole:
        if type(number) is int and is_within(number, _LIMIT):
            node = _of_int(number)
    elif dtype is not None and _is_exact(number):
        node = _of_float(number, dtype)
    return None if node is None else wrap(node, None)


@cython.cfunc
@cython.exceptval(check=False)
def _is_exact(number: object) -> cython.bint:
    """True for a number that a C double holds as it is."""
    if type(number) is float:
        return True
    return type(number) is int and is_within(number, _EXACT)


@cython.cfunc
def _of_float(number: cython.double, dtype: DType) -> Node:
    buffer: PooledBuffer
    if dtype is _single:
        buffer = allocate(4)
        cython.cast(cython.p_float, buffer.address)[0] = cython.cast(cython.float, number)
    elif dtype is _double:
        buffer = allocate(8)
        cython.cast(cython.p_double, buffer.address)[0] = number
    else:
        return None
    return new_value(dtype, (), buffer, 0)


@cython.cfunc
def _of_int(number: int64_t) -> Node:
    buffer: PooledBuffer = allocate(8)
    cython.cast(cython.pointer(int64_t), buffer.address)[0] = number
    node: Node = new_value(_whole, (), buffer, 0)
    node.max_index = number + 1 if number >= 0 else -1
    return node


# -- lists ---------------------------------------------------------------------------------------------------------


@cython.final
@cython.cclass
class _Reader:
    """Elements on their way from nested lists into memory; `low` and `high` are the least and largest integers, and
    floats may be `mixed` with integers where their type was given."""

    shape = cython.declare(list)
    place = cython.declare(cython.p_char)
    kind = cython.declare(cython.int)
    mixed = cython.declare(cython.bint)
    low = cython.declare(int64_t)
    high = cython.declare(int64_t)

    @cython.cfunc
    @cython.exceptval(-1)
    def read(self, part: object, depth: cython.Py_ssize_t) -> cython.bint:
        """Copy the elements of one list; whether they are all of the kind, and as many as in the first."""
        if type(part) is not list and type(part) is not tuple:
            return False
        if len(part) != cython.cast(cython.Py_ssize_t, self.shape[depth]):
            return False
        if depth + 1 < len(self.shape):
            for entry in part:  # noqa: SIM110 - `all` would make a generator
                if not self.read(entry, depth + 1):
                    return False
            return True
        if self.kind == _WHOLE:
            return self.read_whole(part)
        if self.kind == _TRUTH:
            return self.read_truths(part)
        return self.read_floats(part)

    @cython.cfunc
    @cython.exceptval(-1)
    def read_floats(self, part: Any) -> cython.bint:
        number: cython.double
        for entry in part:
            if not _is_exact(entry) or (type(entry) is int and not self.mixed):
                return False
            number = entry
            if self.kind == _SINGLE:
                cython.cast(cython.p_float, self.place)[0] = cython.cast(cython.float, number)
                self.place += 4
            else:
                cython.cast(cython.p_double, self.place)[0] = number
                self.place += 8
        return True

    @cython.cfunc
    @cython.exceptval(-1)
    def read_whole(self, part: Any) -> cython.bint:
        number: int64_t
        for entry in part:
            if type(entry) is not int or not is_within(entry, _LIMIT):
                return False
            number = entry
            self.low = min(self.low, number)
            self.high = max(self.high, number)
            cython.cast(cython.pointer(int64_t), self.place)[0] = number
            self.place += 8
        return True

    @cython.cfunc
    @cython.exceptval(-1)
    def read_truths(self, part: Any) -> cython.bint:
        for entry in part:
            if type(entry) is not bool:
                return False
            self.place[0] = entry is True
            self.place += 1
        return True


_SINGLE = cython.declare(cython.int, 0)
_DOUBLE = cython.declare(cython.int, 1)
_WHOLE = cython.declare(cython.int, 2)
_TRUTH = cython.declare(cython.int, 3)


@cython.ccall
def tensor_of_list(data: object, wanted: DType | None = None) -> Any:
    """A tensor of nested lists or tuples of equal lengths, all of Python floats, in the default type, all of Python
    ints, as int64, or all of Python bools, unless a type is given; None for everything else."""
    reader: _Reader = _Reader()
    count: cython.longlong = 1
    first = data
    reader.shape = []
    while type(first) is list or type(first) is tuple:
        if len(first) == 0 or len(reader.shape) == _MOST_DEPTH:
            return None
        reader.shape.append(len(first))
        count *= len(first)
        if count > _MOST_READ:
            return None
        first = first[0]
    dtype: DType = _kind_of(first) if wanted is None else wanted
    reader.kind = _reading(dtype)
    if reader.kind < 0 or not reader.shape:
        return None
    buffer: PooledBuffer = allocate(count * dtype.itemsize)
    reader.place = cython.cast(cython.p_char, buffer.address)
    reader.mixed = wanted is not None
    if not reader.read(data, 0):
        return None
    node: Node = new_value(dtype, tuple(reader.shape), buffer, 0)
    if reader.kind == _WHOLE:
        node.max_index = reader.high + 1 if reader.low >= 0 else -1
    return wrap(node, None)


@cython.cfunc
@cython.exceptval(check=False)
def _reading(dtype: DType | None) -> cython.int:
    """The kind of elements that a type is read as; -1 where there is none."""
    if dtype is _single:
        return _SINGLE
    if dtype is _double:
        return _DOUBLE
    if dtype is _whole:
        return _WHOLE
    return _TRUTH if dtype is _truth else -1


@cython.cfunc
def _kind_of(number: object) -> DType:
    """The type of a tensor of such numbers; None where that is to be asked elsewhere."""
    if type(number) is int:
        return _whole
    if type(number) is bool:
        return _truth
    if type(number) is not float:
        return None
    dtype: DType = dtypes.get_default()
    return dtype if dtype is _single or dtype is _double else None


# -- sizes ---------------------------------------------------------------------------------------------------------


@cython.ccall
def shape_of_sizes(size: tuple[Any, ...]) -> Any:
    """Sizes as a shape where they are Python ints one by one, or in one tuple or list, and not out of the question;
    None for everything else."""
    if len(size) == 1 and (type(size[0]) is tuple or type(size[0]) is list):
        size = tuple(size[0])
    for entry in size:
        if type(entry) is not int or not 0 <= entry <= _most:
            return None
    return size
