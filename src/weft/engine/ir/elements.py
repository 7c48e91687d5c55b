# cython: language_level=3
"""Addresses of a computed value's elements.

It takes a node and a range of its elements, and gives their address if they are contiguous. A value need not have
memory for each of its elements: a constant keeps one, an expanded value one for many. So only this module goes from a
node to an address; strided arrays are made by `engine.runtime.numpy_views`, where NumPy checks the bounds, and kernels
get the address together with the strides of `Node.strides`.
"""

import cython
from cython.cimports.cpython.buffer import (
    Py_buffer,
    PyBUF_SIMPLE,
    PyBuffer_Release,
    PyObject_CheckBuffer,
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
    """The address of `count` elements, from number `offset` on in row-major order; the caller releases `view`. NULL,
    with nothing to release, if they are not contiguous, not within the value and its memory, or where the host cannot
    read."""
    itemsize: cython.longlong = node.dtype.itemsize
    if node.state != DONE or node.buffer is None or node.strides is not None:
        return cython.NULL
    if not PyObject_CheckBuffer(node.buffer):
        return cython.NULL
    if offset < 0 or count < 0 or offset > node.numel - count:
        return cython.NULL
    PyObject_GetBuffer(node.buffer, view, PyBUF_SIMPLE)
    first: cython.longlong = node.offset + offset * itemsize
    if first < 0 or first > view.len - count * itemsize:
        PyBuffer_Release(view)
        return cython.NULL
    return cython.cast(cython.p_char, view.buf) + first
