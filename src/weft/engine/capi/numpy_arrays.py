# cython: language_level=3
"""NumPy arrays over given memory, made by NumPy's C interface: a third of the time of its constructor in Python.

It takes an address, shape and strides, and refuses what would reach outside the memory that it is told.
"""

import cython
import numpy as np
from cython.cimports.cpython.memoryview import PyMemoryView_FromObject
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.pycapsule import PyCapsule_GetPointer
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdint import uintptr_t
from cython.cimports.weft.engine.capi.numpy_arrays import (
    MOST_DIMENSIONS,
    WRITEABLE,
    NewFromDescr,
    SetBaseObject,
)

from weft._build.compiled import require

require(__name__, cython.compiled)

# The places of functions in NumPy's table, which its binary interface fixes.
_NEW_FROM_DESCR, _SET_BASE_OBJECT = 94, 282
_new = cython.declare(NewFromDescr)
_set_base = cython.declare(SetBaseObject)
_kind = cython.declare(object, np.ndarray)


@cython.cfunc
def _load() -> cython.void:
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined] # not declared

    global _new, _set_base
    table = cython.cast(
        cython.pointer(cython.p_void),
        PyCapsule_GetPointer(_multiarray_umath._ARRAY_API, cython.NULL),
    )
    new: cython.Py_ssize_t = _NEW_FROM_DESCR
    set_base: cython.Py_ssize_t = _SET_BASE_OBJECT
    _new = cython.cast(NewFromDescr, table[new])
    _set_base = cython.cast(SetBaseObject, table[set_base])


_load()


@cython.cfunc
def memory_view(owner: object) -> object:
    """A view of a buffer, for an array to hold: by it the array is an owner of the memory."""
    return PyMemoryView_FromObject(owner)


@cython.cfunc
def strided_array(
    base: object,
    start: uintptr_t,
    end: uintptr_t,
    first: uintptr_t,
    dtype: object,
    itemsize: cython.Py_ssize_t,
    shape: tuple,
    strides: tuple,
    writable: cython.bint,
) -> object:
    """An array of a NumPy dtype whose first element is at an address, which keeps `base` alive.

    `strides` are in elements; None: those of the shape. Errors: ValueError for one that reaches outside
    the memory from `start` to `end`.
    """
    sizes: cython.Py_ssize_t[MOST_DIMENSIONS]
    steps: cython.Py_ssize_t[MOST_DIMENSIONS]
    rank: cython.Py_ssize_t = len(shape)
    axis: cython.Py_ssize_t
    step: cython.Py_ssize_t = itemsize
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = 0
    if rank > MOST_DIMENSIONS:
        raise ValueError(f"maximum supported dimension for an ndarray is 64, found {rank}")
    for axis in range(rank - 1, -1, -1):
        sizes[axis] = shape[axis]
        if strides is not None:
            step = cython.cast(cython.Py_ssize_t, strides[axis]) * itemsize
        steps[axis] = step
        if step < 0:
            low += (sizes[axis] - 1) * step
        else:
            high += (sizes[axis] - 1) * step
        if strides is None:
            step *= sizes[axis]
    if first + low < start or first + high + itemsize > end:
        raise ValueError("buffer is too small for requested array")
    Py_INCREF(dtype)  # which the array takes over
    array = cython.cast(
        object,
        _new(
            cython.cast(cython.pointer(PyObject), _kind),
            cython.cast(cython.pointer(PyObject), dtype),
            cython.cast(cython.int, rank),
            sizes,
            steps,
            cython.cast(cython.p_void, first),
            WRITEABLE if writable else 0,
            cython.NULL,
        ),
    )
    Py_DECREF(array)  # `cast` has counted it again
    Py_INCREF(base)
    _set_base(
        cython.cast(cython.pointer(PyObject), array), cython.cast(cython.pointer(PyObject), base)
    )
    return array
