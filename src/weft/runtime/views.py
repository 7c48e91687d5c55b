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


def array_over(node: Node) -> np.ndarray[Any, Any]:
    """The value of a node that has been computed, read-only; bfloat16 as its bits in uint16."""
    if node.row is SCALAR_ROW:
        from weft.runtime.scalars import scalar_bytes

        raw = np.frombuffer(
            scalar_bytes(node.params, node.dtype), dtype=node.dtype.numpy or np.uint16
        )
        return raw.reshape(())
    dtype = node.dtype.numpy or np.dtype(np.uint16)
    if node.numel == 0:
        return np.zeros(node.shape, dtype)
    if node.strides is None:
        flat = np.frombuffer(node.buffer, np.uint8, node.numel * dtype.itemsize, node.offset)
        array = flat.view(dtype).reshape(node.shape)
    else:
        base = np.frombuffer(node.buffer, np.uint8)[node.offset :]
        low = sum(
            min(0, (size - 1) * stride)
            for size, stride in zip(node.shape, node.strides, strict=True)
        )
        start = node.offset + low * dtype.itemsize
        span = (
            sum(
                abs((size - 1) * stride)
                for size, stride in zip(node.shape, node.strides, strict=True)
            )
            + 1
        )
        base = np.frombuffer(node.buffer, np.uint8, span * dtype.itemsize, start).view(dtype)
        array = np.lib.stride_tricks.as_strided(
            base[-low:], node.shape, [stride * dtype.itemsize for stride in node.strides]
        )
    array.flags.writeable = False
    return array
