# cython: language_level=3
"""NumPy views of values: read-only arrays over the memory of nodes.

It takes a computed node and copies nothing: the array has the strides of the node's memory, where a constant keeps one
element, and an expanded value one for many. NumPy refuses an array that would reach outside its buffer.
"""

from typing import TYPE_CHECKING, Any

import cython
import numpy as np
from cython.cimports.weft.engine.ir.node import Node

from weft._build.compiled import require
from weft.engine.ir.primitive import SCALAR_OP
from weft.engine.ir.strides import contiguous_strides

if TYPE_CHECKING:
    from weft._typing import Array

require(__name__, cython.compiled)

WORDS = np.dtype(np.uint16)  # the type of the bits of bfloat16


def bytes_of(buffer: Any) -> Array:
    """Memory as an array of bytes, which is an owner of it for as long as an array over it lives: of a buffer that an
    array is made over directly, NumPy keeps only the object, and no view."""
    return np.frombuffer(buffer, np.uint8) if buffer.nbytes else np.zeros(0, np.uint8)


def array_over(node: Node) -> Array:
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
    strides = None
    if node.strides is not None:
        strides = tuple([stride * dtype.itemsize for stride in node.strides])
    array = np.ndarray(node.shape, dtype, bytes_of(node.buffer), node.offset, strides)
    array.setflags(write=False)
    return array


def window_over(
    node: Node, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int
) -> Array:
    """A region of a computed value, read-only. `strides` and `offset` are a handle's: they count the value's elements
    in row-major order, whatever its memory order. Errors: ValueError for a region outside the memory."""
    whole = array_over(node)
    if strides is None:
        strides = contiguous_strides(shape)
    if 0 in shape:
        return np.zeros(shape, whole.dtype)
    if offset == 0 and shape == whole.shape and strides == contiguous_strides(shape):
        return whole
    if not whole.flags.c_contiguous:
        return _chosen(whole, shape, strides, offset)
    steps = [stride * whole.itemsize for stride in strides]
    array = np.ndarray(shape, whole.dtype, whole.reshape(-1), offset * whole.itemsize, steps)
    array.setflags(write=False)
    return array


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
