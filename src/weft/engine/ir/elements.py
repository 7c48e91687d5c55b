# cython: language_level=3
"""Where the elements of a computed value lie.

In comes a node, and which of its elements are wanted; out goes their address, where they lie one behind the other. A
value need not have memory for each of its elements: a constant keeps one, what is expanded keeps one for many. So
nobody else goes from a node to an address; strided arrays are made by `engine.runtime.numpy_views`, which NumPy holds
to the memory, and kernels get the strides of `Node.strides` with the address.
"""

import cython
from cython.cimports.cpython.buffer import (
    Py_buffer,
    PyBUF_SIMPLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cython.cimports.weft.engine.ir.node import DONE, Node

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.cfunc
@cython.exceptval(check=False)
def dense_elements(
    node: Node,
    offset: cython.longlong,
    count: cython.longlong,
    view: cython.pointer(Py_buffer),
) -> cython.p_char:
    """Where `count` elements begin, from number `offset` on in row-major order; the caller releases `view`. NULL, and
    nothing to release, where they do not lie one behind the other, or not within the value and its memory."""
    itemsize: cython.longlong = node.dtype.itemsize
    if node.state != DONE or node.buffer is None or node.strides is not None:
        return cython.NULL
    if offset < 0 or count < 0 or offset > node.numel - count:
        return cython.NULL
    PyObject_GetBuffer(node.buffer, view, PyBUF_SIMPLE)
    first: cython.longlong = node.offset + offset * itemsize
    if first < 0 or first > view.len - count * itemsize:
        PyBuffer_Release(view)
        return cython.NULL
    return cython.cast(cython.p_char, view.buf) + first
