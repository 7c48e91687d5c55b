# cython: language_level=3
"""Scalar cells: single numbers written to memory and read from it.

It takes a Python number and an address, or an address alone. The dtypes that programs are made of are converted here;
all others by `scalar_bytes` and by NumPy.
"""

import cython
from cython.cimports.libc.stdint import int8_t, int16_t, int32_t, int64_t, uint8_t
from cython.cimports.libc.string import memcpy
from cython.cimports.weft.engine.ir.dtype import DType

from weft._build.compiled import require
from weft.engine.ir import dtype as dtypes
from weft.engine.runtime.scalar_bytes import scalar_bytes

require(__name__, cython.compiled)

_BOOL = cython.declare(cython.int, dtypes.bool_.code)
_UINT8 = cython.declare(cython.int, dtypes.uint8.code)
_INT8 = cython.declare(cython.int, dtypes.int8.code)
_INT16 = cython.declare(cython.int, dtypes.int16.code)
_INT32 = cython.declare(cython.int, dtypes.int32.code)
_INT64 = cython.declare(cython.int, dtypes.int64.code)
_FLOAT32 = cython.declare(cython.int, dtypes.float32.code)
_FLOAT64 = cython.declare(cython.int, dtypes.float64.code)
_EXACT = cython.declare(cython.longlong, 1 << 53)


@cython.cfunc
@cython.exceptval(-1, check=False)
def store_number(number, dtype: DType, target: cython.p_char) -> cython.int:
    """Write a number as an element of a type, as casts convert it."""
    value: cython.double
    single: cython.float
    if type(number) is float:
        value = number
    elif type(number) is int and -_EXACT < number < _EXACT:
        if dtype.code == _INT64:
            cython.cast(cython.pointer(int64_t), target)[0] = number
            return 0
        value = number
    else:
        return _store_rare(number, dtype, target)
    if dtype.code == _FLOAT32:
        single = cython.cast(cython.float, value)
        memcpy(target, cython.address(single), 4)
    elif dtype.code == _FLOAT64:
        memcpy(target, cython.address(value), 8)
    else:
        return _store_rare(number, dtype, target)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _store_rare(number, dtype: DType, target: cython.p_char) -> cython.int:
    raw: bytes = scalar_bytes(number, dtype)
    memcpy(target, cython.cast(cython.p_char, raw), len(raw))
    return 0


@cython.cfunc
def load_number(dtype: DType, place: cython.p_char):
    """The element at an address, as a Python number."""
    code: cython.int = dtype.code
    if code == _FLOAT32:
        return cython.cast(cython.double, cython.cast(cython.p_float, place)[0])
    if code == _FLOAT64:
        return cython.cast(cython.p_double, place)[0]
    if code == _BOOL:
        return cython.cast(cython.pointer(uint8_t), place)[0] != 0
    if code == _INT64:
        return cython.cast(cython.pointer(int64_t), place)[0]
    if code == _INT32:
        return cython.cast(cython.pointer(int32_t), place)[0]
    if code == _INT16:
        return cython.cast(cython.pointer(int16_t), place)[0]
    if code == _INT8:
        return cython.cast(cython.pointer(int8_t), place)[0]
    if code == _UINT8:
        return cython.cast(cython.pointer(uint8_t), place)[0]
    return _load_rare(dtype, place[: dtype.itemsize])


def _load_rare(dtype, raw: bytes):
    """Half precision and complex numbers, by NumPy; the bits of bfloat16 are the upper half of a float32."""
    import numpy as np

    if dtype is dtypes.bfloat16:
        bits = np.frombuffer(raw, np.uint16)
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)[0].item()
    return np.frombuffer(raw, dtype.numpy)[0].item()
