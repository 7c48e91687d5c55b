"""Rows between floats and their bits: `float32_bits` gives the bits of a float32 as an int32, `float32_of_bits` the way
back, and so for every float type. What makes views of memory as another type (`weft.functional.shape.bitcast`).

A signalling nan of float16 becomes a quiet one where it is read; every other bit stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.ir import dtype as dtypes
from weft.ops.registry import define_elementwise, not_differentiable

if TYPE_CHECKING:
    from weft.engine.ir.dtype import DType
    from weft.ops.registry import Rule


_WHY = not_differentiable("bits are no function that has a derivative")
INTEGER_OF = {
    "float16": dtypes.int16,
    "bfloat16": dtypes.int16,
    "float32": dtypes.int32,
    "float64": dtypes.int64,
}


def _bits_numpy(name: str) -> Any:
    """bfloat16 is carried as float32."""
    if name == "bfloat16":
        return lambda x: (x.astype(np.float32).view(np.int32) >> 16).astype(np.int16)
    return lambda x: x.astype(name).view(INTEGER_OF[name].name)


def _of_bits_numpy(name: str) -> Any:
    if name == "bfloat16":
        return lambda x: (x.astype(np.int32) << 16).view(np.float32)
    return lambda x: np.ascontiguousarray(x).view(name).reshape(x.shape)


def _define(name: str, reference: Rule, domain: str, dtypes: str, result: DType) -> None:
    define_elementwise(
        name,
        "self",
        reference,
        domain,
        _WHY,
        lower=lambda e, d, x: e.reinterpret(x, d),
        dtype=lambda params, d: result,
        dtypes=dtypes,
    )


for _name, _integer in INTEGER_OF.items():
    _define(f"{_name}_bits", _bits_numpy(_name), "real", _name, _integer)
    _define(
        f"{_name}_of_bits", _of_bits_numpy(_name), "integer", _integer.name, dtypes.by_name(_name)
    )
