# cython: language_level=3
"""NumPy views of values: read-only arrays over the memory of nodes.

It takes a computed node and copies nothing: the array has the strides of the node's memory, where a constant keeps one
element, and an expanded value one for many. NumPy refuses an array that would reach outside its buffer.
"""

from typing import TYPE_CHECKING, Any

import cython
import numpy as np
from cython.cimports.cpython.buffer import PyObject_CheckBuffer
from cython.cimports.libc.stdint import uintptr_t
from cython.cimports.weft.engine.capi.numpy_arrays import memory_view, strided_array
from cython.cimports.weft.engine.devices.api import device_at
from cython.cimports.weft.engine.ir.memory import OwnedMemory
from cython.cimports.weft.engine.ir.node import Node

from weft._build.compiled import require
from weft.engine.ir.primitive import SCALAR_OP
from weft.engine.ir.strides import contiguous_strides

if TYPE_CHECKING:
    from weft._typing import Array

require(__name__, cython.compiled)

WORDS = np.dtype(np.uint16)  # the type of the bits of bfloat16


@cython.ccall
def readable(buffer: OwnedMemory) -> object:
    """An object with the buffer protocol for what a buffer holds: itself, or a copy where the host cannot read it."""
    if PyObject_CheckBuffer(buffer):
        return buffer
    return device_at(buffer.device).memory.download(buffer, 0, buffer.nbytes)


@cython.cfunc
def _region(
    node: Node,
    dtype: object,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    offset: cython.longlong,
) -> object:
    """A region of the memory of a value, `offset` elements behind its first, read-only. It holds a view of the buffer,
    and so owns its memory for as long as any array over it lives: of a buffer alone NumPy keeps only the object. What
    the host cannot read is downloaded."""
    start: uintptr_t = node.buffer.address
    end: uintptr_t = start + node.buffer.nbytes
    owner: object = readable(node.buffer)
    if owner is not node.buffer:
        start = cython.cast(uintptr_t, cython.cast(cython.p_char, owner))
        end = start + node.buffer.nbytes
    first: uintptr_t = start + node.offset + offset * node.dtype.itemsize
    itemsize: cython.Py_ssize_t = node.dtype.itemsize
    memory = memory_view(owner)
    return strided_array(memory, start, end, first, dtype, itemsize, shape, strides, False)


@cython.ccall
def array_over(node: Node) -> np.ndarray[Any, Any]:
    """The value of a node that has been computed, read-only; bfloat16 as its bits in uint16."""
    if node.op is SCALAR_OP:
        from weft.engine.runtime.scalar_bytes import scalar_bytes

        raw = np.frombuffer(
            scalar_bytes(node.params, node.dtype), dtype=node.dtype.numpy or np.uint16
        )
        return raw.reshape(())
    dtype = node.dtype.numpy or WORDS
    if node.numel == 0:
        return np.zeros(node.shape, dtype)
    return _region(node, dtype, node.shape, node.strides, 0)


@cython.ccall
def window_over(
    node: Node, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: cython.longlong
) -> np.ndarray[Any, Any]:
    """A region of a computed value, read-only. `strides` and `offset` are a handle's: they count the value's elements
    in row-major order, whatever its memory order. Errors: ValueError for a region outside the memory."""
    if 0 in shape:
        return np.zeros(shape, node.dtype.numpy or WORDS)
    if strides is None:
        strides = contiguous_strides(shape)
    if offset == 0 and shape == node.shape and strides == contiguous_strides(shape):
        return array_over(node)
    if node.op is not SCALAR_OP and node.strides is None:
        return _region(node, node.dtype.numpy or WORDS, shape, strides, offset)
    return _chosen(array_over(node), shape, strides, offset)


def _chosen(whole: Array, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Array:
    """A region of elements that are not contiguous in memory: a copy, unless the value is a constant."""
    if not any(whole.strides):
        return np.broadcast_to(whole.reshape(-1)[0], shape)
    places: Any = np.array(offset)
    for size, stride in zip(shape, strides, strict=True):
        places = np.add.outer(places, np.arange(size) * stride)
    array = whole[np.unravel_index(places, whole.shape)]
    array.setflags(write=False)
    return array
