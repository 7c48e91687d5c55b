# cython: language_level=3
"""Values as arrays over their own memory.

In comes a node that has its value; out goes a read-only NumPy array, which copies nothing.
"""

from typing import Any

import cython
import numpy as np
from cython.cimports.weft.graph.node import Node

from weft._compiled import require
from weft.graph.rows import SCALAR_ROW

require(__name__, cython.compiled)

WORDS = np.dtype(np.uint16)  # the bits of bfloat16


def array_over(node: Node) -> np.ndarray[Any, Any]:
    """The value of a node that has been computed, read-only; bfloat16 as its bits in uint16."""
    if node.row is SCALAR_ROW:
        from weft.runtime.scalars import scalar_bytes

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
    array = np.ndarray(node.shape, dtype, node.buffer, node.offset, strides)
    array.setflags(write=False)
    return array
