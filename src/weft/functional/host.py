# ruff: noqa: A001, A002 - PyTorch's names
"""The border to NumPy for the long tail: values read at the call, and arrays copied into the pool.

Sorting, unique and their like run in NumPy on realised values; what they return becomes ordinary tensors here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft._lazy import later
from weft.errors import DTypeError
from weft.graph import dtype as dtypes
from weft.graph.dtype import DType
from weft.graph.edges import value_of
from weft.graph.handles import wrap_node
from weft.graph.making import make_value
from weft.graph.recording import cast

pipeline = later("weft.pipeline")
pool = later("weft.runtime.pool")


def to_numpy(tensor: Any) -> Any:
    """The value of a tensor, run at the call. bfloat16 comes as float32. The array is not to be written to."""
    array = pipeline.array_of(value_of(tensor))
    if tensor._dtype is dtypes.bfloat16:
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array


def from_numpy(array: Any, dtype: DType | None = None) -> Any:
    """A tensor with a copy of an array in the pool. Errors: DTypeError for element types that Weft lacks."""
    if dtype is dtypes.bfloat16:  # NumPy lacks it
        return cast(from_numpy(np.asarray(array, np.float32)), dtype)
    array = np.asarray(array, order="C")
    found = dtypes.from_numpy(array.dtype)
    if dtype is not None and found is not dtype:
        array = array.astype(dtype.numpy)
        found = dtype
    if found is None:
        raise DTypeError(
            f"can't convert np.ndarray of type {array.dtype}",
            expected="a numeric or boolean array",
            got=str(array.dtype),
            fix="convert the array with .astype(...)",
        )
    buffer: Any = pool.allocate(max(array.nbytes, 1))
    if array.nbytes:
        np.frombuffer(buffer, np.uint8)[: array.nbytes] = array.reshape(-1).view(np.uint8)
    return wrap_node(make_value(found, tuple(array.shape), buffer, 0))
