# ruff: noqa: A001, A002 - PyTorch's names
"""The border to NumPy for the long tail: values read at the call, and arrays copied into the pool.

Sorting, unique and their like run in NumPy on realised values; what they return becomes ordinary tensors here.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from weft._lazy import later
from weft.errors import DTypeError
from weft.functional.blas import limited
from weft.graph import dtype as dtypes
from weft.graph.dtype import DType
from weft.graph.edges import value_of
from weft.graph.handles import wrap_node
from weft.graph.making import make_value
from weft.graph.recording import cast

pipeline = later("weft.pipeline")
threading = later("threading")
pool = later("weft.runtime.pool")
LONG = 1 << 20  # elements from which a function of NumPy takes tens of milliseconds


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
        np.ndarray(array.shape, array.dtype, buffer)[...] = array
    return wrap_node(make_value(found, array.shape, buffer, 0))


@cache
def routine(name: str, dtype: Any) -> Any:
    """A routine of LAPACK for matrices of a NumPy type."""
    from scipy.linalg import lapack

    return limited(getattr(lapack, {"f": "s", "d": "d", "F": "c", "D": "z"}[dtype.char] + name))


def answering(function: Callable[..., Any], array: Any, *rest: Any, **keywords: Any) -> Any:
    """function(array, ...), which must only compute: for a large array on a thread of its own, so that this one can
    answer signals. A call that a signal handler's exception leaves behind ends by itself, unseen."""
    if array.size < LONG or threading.current_thread() is not threading.main_thread():
        return function(array, *rest, **keywords)
    results: list[Any] = []
    errors: list[BaseException] = []
    finished = threading.Event()

    def compute() -> None:
        try:
            results.append(function(array, *rest, **keywords))
        except BaseException as error:  # handed to the caller
            errors.append(error)
        finally:
            finished.set()

    threading.Thread(target=contextvars.copy_context().run, args=(compute,), daemon=True).start()
    finished.wait()
    if errors:
        raise errors[0]
    return results[0]
