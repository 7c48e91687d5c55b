# cython: language_level=3
"""Single numbers as tensors that have their value, without an array in between.

Programs that run example by example make a tensor of every label, word and target, so that each is made often.
"""

from typing import Any

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.weft.graph.dtype import DType
from cython.cimports.weft.graph.handles import wrap
from cython.cimports.weft.graph.making import new_value
from cython.cimports.weft.graph.node import Node
from cython.cimports.weft.runtime.pool import Buffer, allocate

from weft._compiled import require
from weft.graph import dtype as dtypes

require(__name__, cython.compiled)

_single = cython.declare(DType, dtypes.float32)
_double = cython.declare(DType, dtypes.float64)
_whole = cython.declare(DType, dtypes.int64)
_LIMIT = 1 << 62


@cython.ccall
def tensor_of_number(number: Any) -> Any:
    """A tensor of a Python float in the default type, or of a Python int as int64; None for every other number."""
    node: Node
    if type(number) is float:
        node = _of_float(number, dtypes.get_default())
    elif type(number) is int and -_LIMIT < number < _LIMIT:
        node = _of_int(number)
    else:
        node = None
    return None if node is None else wrap(node, None)


@cython.cfunc
def _of_float(number: cython.double, dtype: DType) -> Node:
    buffer: Buffer
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
    buffer: Buffer = allocate(8)
    cython.cast(cython.pointer(int64_t), buffer.address)[0] = number
    node: Node = new_value(_whole, (), buffer, 0)
    node.bound = number + 1 if number >= 0 else -1
    return node
