"""Who is to blame where a program has failed: the index checks that did not hold, and all that was computed from them.

In come a program that has run, its memory, and the positions of the kernels that failed; out goes an error for each
node that has no value. The values of the indices are still there: the pipeline keeps them when it runs a failed
program again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.errors import WeftError
from weft.graph.bounds import range_error
from weft.graph.rows import SCALAR_ROW
from weft.ops.indexing import public_name


def poison(program: Any, memory: Any, run: Any, kernels: list[int]) -> dict[Any, WeftError]:
    """A failed index check and everything computed from it."""
    failed: dict[Any, WeftError] = {}
    if not kernels:
        return failed
    for kernel in program.kernels:
        for node in kernel.nodes:
            if kernel.position in kernels:
                failed[node] = index_fault(node, value_in(node.inputs[1], program, memory, run))
                continue
            for source in node.inputs:
                error = failed.get(program.places[source].root)
                if error is not None:
                    failed[node] = error
    return failed


def index_fault(node: Any, values: Any) -> WeftError:
    """The error of a node whose index is out of range, by its values."""
    axis = node.params[0]
    size = node.inputs[0].shape[axis]
    name, wraps = public_name(node.row)
    if wraps:  # negative positions have been wrapped: what is still negative was farther out
        values = np.where(values < 0, values - size, values)
    return range_error(name, values, size, axis, wraps, node.where)


def value_in(node: Any, program: Any, memory: Any, run: Any) -> np.ndarray[Any, Any]:
    """A copy of a value that a program holds in a slot it keeps."""
    place = program.places[node]
    slot = memory.slots[place.root]
    if place.root.row is SCALAR_ROW:
        return np.full(node.shape, place.root.params, np.int64)
    buffer = run.buffers[slot]
    memory_of_slot = np.frombuffer(buffer, np.uint8)
    start = run.addresses[slot] - buffer.address + place.offset * place.root.dtype.itemsize
    array = np.ndarray(
        node.shape,
        node.dtype.numpy,
        memory_of_slot,
        start,
        [stride * node.dtype.itemsize for stride in place.strides],
    )
    return array.copy()
