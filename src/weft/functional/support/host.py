# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""The border to NumPy for the long tail: values read at the call, and arrays copied into the pool.

Sorting, unique and their like run in NumPy on realised values; what they return becomes ordinary tensors here.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import cython
import numpy as np
from cython.cimports.cpython.buffer import (
    Py_buffer,
    PyBUF_SIMPLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cython.cimports.libc.string import memcpy
from cython.cimports.weft.engine.devices.cpu.pool import PooledBuffer, allocate

from weft._build.compiled import require
from weft._build.lazy import later
from weft.engine.devices.cpu.pool import address_of
from weft.engine.frontend.node_factory import make_value
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import DTypeError
from weft.functional.support.blas_threads import THREADED, TINY, limited

if TYPE_CHECKING:
    from weft.engine.frontend.tensor import Tensor

    class _Measured(Protocol):
        """An array, or a batch of matrices."""

        @property
        def size(self) -> int: ...


require(__name__, cython.compiled)

pipeline = later("weft.engine.pipeline.driver")
threading = later("threading")
LONG = 1 << 20  # elements from which a function of NumPy takes tens of milliseconds


def to_numpy(tensor: Tensor) -> Any:
    """The value of a tensor, run at the call. bfloat16 comes as float32. The array is not to be written to."""
    array = pipeline.array_of(value_of(tensor))
    if tensor._dtype is dtypes.bfloat16:
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array


def from_numpy(array: object, dtype: DType | None = None) -> Any:
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
    return wrap_node(make_value(found, array.shape, _copied(array), 0))


def occurrences(numbers: object, size: int) -> Any:
    """The number of occurrences of each of 0 .. size - 1 among integers in that range."""
    numbers = np.ascontiguousarray(numbers, np.int64)
    counts = np.zeros(size, np.int64)
    into = cython.cast(cython.p_longlong, cython.cast(cython.size_t, address_of(counts)))
    found = cython.cast(cython.p_longlong, cython.cast(cython.size_t, address_of(numbers)))
    count = cython.declare(cython.Py_ssize_t, numbers.size)
    i = cython.declare(cython.Py_ssize_t)
    with cython.nogil:
        for i in range(count):
            into[found[i]] += 1
    return counts


@cython.cfunc
def _copied(array: object) -> PooledBuffer:
    """The elements of an array in row-major order, in the pool."""
    view = cython.declare(Py_buffer)
    PyObject_GetBuffer(array, cython.address(view), PyBUF_SIMPLE)
    try:
        buffer = cython.declare(PooledBuffer, allocate(max(view.len, 1)))
        if view.len > 0:
            memcpy(cython.cast(cython.p_void, buffer.address), view.buf, view.len)
    finally:
        PyBuffer_Release(cython.address(view))
    return buffer


@cache
def routine(name: str, dtype: np.dtype[np.generic]) -> Any:
    """A routine of LAPACK for matrices of a NumPy type, the first of which is its first argument."""
    return limited(raw_routine(name, dtype), 0 if name in THREADED else TINY)


def raw_routine(name: str, dtype: np.dtype[np.generic]) -> Any:
    """A routine of LAPACK that takes as many threads as there are."""
    from scipy.linalg import lapack

    return getattr(lapack, {"f": "s", "d": "d", "F": "c", "D": "z"}[dtype.char] + name)


def answering(
    function: Callable[..., object], array: _Measured, *rest: object, **keywords: object
) -> Any:
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
