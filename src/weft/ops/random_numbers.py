"""Rows of random numbers: bits, integers, uniform and normal numbers of a Philox sequence, one node each.

Operands are the key, the offset of the first number, and the place of each element from 0 on; where an element takes
several numbers of the sequence, `count` elements take their first ones before any takes a second one. Which operations
are done on the bits, in which type, is part of what a seed means: it stays.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.ir import dtype as dtypes
from weft.ops.registry import define_elementwise, not_differentiable

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.devices.cpu.elementwise.emitter import Emitter
    from weft.engine.devices.cpu.llvm.simd_value import SimdValue
    from weft.engine.ir.dtype import DType
    from weft.engine.ir.primitive import Primitive
    from weft.ops.registry import Rule


_WHY = not_differentiable("random numbers depend on the generator, not on a tensor")
MANTISSA = {
    "float16": 11,
    "bfloat16": 8,
    "float32": 24,
    "float64": 53,
}  # random bits of a uniform number


def is_drawn(op: Primitive) -> bool:
    """True if a row's values are random numbers."""
    return op.why == _WHY.why


# -- what they mean, for tests -----------------------------------------------------------------------------------------


def _philox_reference(key: Array, offset: Array, place: Array) -> Any:
    """Word 0 of Philox4x32-10 (Salmon et al., SC 2011) with a 64-bit key and counter."""
    counter = np.asarray(offset, np.uint64) + np.asarray(place, np.uint64)
    key, counter = np.broadcast_arrays(np.asarray(key, np.uint64), counter)
    low, word = np.uint64(0xFFFFFFFF), np.uint64(32)
    c = [counter & low, counter >> word, np.zeros_like(counter), np.zeros_like(counter)]
    k = [key & low, key >> word]
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (second >> word) ^ c[1] ^ k[0],
            second & low,
            (first >> word) ^ c[3] ^ k[1],
            first & low,
        ]
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return c[0].astype(np.int64)


def _wide_reference(key: Array, offset: Array, place: Array, count: Array) -> Any:
    upper = _philox_reference(key, offset, place) >> 1
    return (upper << 32) + _philox_reference(key, offset + count, place)


def _integers_reference(key: Array, offset: Array, place: Array, span: Array) -> Any:
    return _philox_reference(key, offset, place) * span >> 32


def _unit_reference(name: str) -> Any:
    width = MANTISSA[name]

    def unit(key: Array, offset: Array, place: Array) -> Any:
        return (_philox_reference(key, offset, place) >> (32 - width)) * 2.0**-width

    def wide(key: Array, offset: Array, place: Array, count: Array) -> Any:
        high = _philox_reference(key, offset, place) >> 5
        low = _philox_reference(key, offset + count, place) >> 6
        return (high * 67108864 + low) * 2.0**-53

    return wide if name == "float64" else unit


def _normal_reference(name: str) -> Any:
    def normal(key: Array, offset: Array, place: Array, count: Array) -> Any:
        more, draws = ((count,), 2) if name == "float64" else ((), 1)
        first, second = (
            _unit_reference(name)(key, offset + number * draws * count, place, *more)
            for number in range(2)
        )
        return np.sqrt(-2 * np.log(1 - first)) * np.cos(2 * np.pi * second)

    return normal


# -- how kernels compute them ------------------------------------------------------------------------------------------


def _bits(e: Emitter, key: SimdValue, offset: SimdValue, place: SimdValue) -> Any:
    return e.philox(key, e.add(place, offset))


def _wide(
    e: Emitter, dtype: str, key: SimdValue, offset: SimdValue, place: SimdValue, count: SimdValue
) -> Any:
    """Integers of 63 bits: the upper 31 of one number, all of another."""
    upper = e.shr(_bits(e, key, offset, place), e.constant(1, dtype))
    lower = _bits(e, key, e.add(offset, count), place)
    return e.add(e.mul(upper, e.constant(2**32, dtype)), lower)


def _integers(
    e: Emitter, dtype: str, key: SimdValue, offset: SimdValue, place: SimdValue, span: SimdValue
) -> Any:
    """Integers in [0, span), for spans up to 2^31: the upper half of 32 bits times the span."""
    return e.shr(e.mul(_bits(e, key, offset, place), span), e.constant(32, dtype))


def _unit(
    e: Emitter,
    dtype: str,
    key: SimdValue,
    offset: SimdValue,
    place: SimdValue,
    count: SimdValue | None = None,
) -> Any:
    """Uniform numbers in [0, 1): the top bits of one number, for float64 of two."""
    if dtype == "float64":
        high = e.shr(_bits(e, key, offset, place), e.constant(5, "int64"))  # 27 bits
        assert count is not None
        low = e.shr(_bits(e, key, e.add(offset, count), place), e.constant(6, "int64"))  # 26 bits
        whole = e.add(e.mul(high, e.constant(67108864, "int64")), low)
        return e.mul(e.cast(whole, dtype), e.constant(2.0**-53, dtype))
    width = MANTISSA[dtype]
    top = e.shr(_bits(e, key, offset, place), e.constant(32 - width, "int64"))
    return e.cast(e.mul(e.cast(top, "float32"), e.constant(2.0**-width, "float32")), dtype)


def _normal(
    e: Emitter, dtype: str, key: SimdValue, offset: SimdValue, place: SimdValue, count: SimdValue
) -> Any:
    """Normal numbers by Box and Muller (1958), from two uniform numbers each."""
    behind = e.add(count, count) if dtype == "float64" else count  # what the first one takes
    first = e.sub(e.constant(1.0, dtype), _unit(e, dtype, key, offset, place, count))  # (0, 1]
    second = _unit(e, dtype, key, e.add(offset, behind), place, count)
    radius = e.sqrt(e.mul(e.log(first), e.constant(-2.0, dtype)))
    return e.mul(radius, e.cos(e.mul(second, e.constant(2 * math.pi, dtype))))


# -- the rows ----------------------------------------------------------------------------------------------------------


def _define(name: str, operands: str, reference: Rule, lower: Rule, result: DType) -> None:
    domain = "counter " * len(operands.split())
    define_elementwise(
        name,
        operands,
        reference,
        domain,
        _WHY,
        lower=lower,
        dtype=lambda params, d: result,
        dtypes="int64",
    )


_define(
    "random_bits",
    "key offset place",
    _philox_reference,
    lambda e, d, *operands: _bits(e, *operands),
    dtypes.int64,
)
_define("random_wide", "key offset place count", _wide_reference, _wide, dtypes.int64)
_define("random_integers", "key offset place span", _integers_reference, _integers, dtypes.int64)
for _name in MANTISSA:
    _more = " count" if _name == "float64" else ""
    _define(
        f"uniform_{_name}",
        "key offset place" + _more,
        _unit_reference(_name),
        _unit,
        dtypes.by_name(_name),
    )
for _name in ("float32", "float64"):
    _define(
        f"normal_{_name}",
        "key offset place count",
        _normal_reference(_name),
        _normal,
        dtypes.by_name(_name),
    )
