"""Binary search as a composition of primitives: the places of many values among ascending boundaries, nothing read.

Few boundaries are all compared with each value, and those before it counted. Among many, a place is found bit by bit,
the highest first: a binary search without branches, of all values at once in one kernel.
"""

from __future__ import annotations

from typing import Any

from weft.engine.api.call_cache import ComposedPart
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.functional.support.index_bounds import trusted
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full, gather, reduce, reshape, where

MOST_COMPARED = 128  # boundaries with which each value is compared


@ComposedPart
def places(edges: Tensor, values: Tensor, behind: bool, wanted: DType) -> Any:
    """The places of values before or behind ascending boundaries. Shapes: (*, n), (*, m) -> (*, m)."""
    shape, count = values._shape, edges._shape[-1]
    if not count or not values.numel():
        return full(shape, 0, wanted)
    if len(edges._shape) == 1:
        values = reshape(values, (values.numel(),))
    find = _counted if count <= MOST_COMPARED else _bit_by_bit
    return reshape(find(edges, values, "le" if behind else "lt", wanted), shape)


def _counted(edges: Tensor, values: Tensor, before: str, wanted: DType) -> Any:
    """The number of boundaries before each value. Shapes: (*, n), (*, m) -> (*, m)."""
    *rows, count = edges._shape
    lines = reshape(values, (*rows, 1, values._shape[-1]))
    passed = _passed(reshape(edges, (*rows, count, 1)), lines, before)
    found = reduce("sum", cast(passed, dtypes.int32), (len(rows),))
    return trusted(cast(found, wanted), count + 1)


def _bit_by_bit(edges: Tensor, values: Tensor, before: str, wanted: DType) -> Any:
    """The same, of boundaries in order: as many as can be passed, the largest power of two first."""
    axis, count = len(edges._shape) - 1, edges._shape[-1]
    place = full(values._shape, 0, dtypes.int64)
    for bit in reversed(range(count.bit_length())):
        further = place + (1 << bit)
        last = trusted(call("minimum", further, count) - 1, count)
        passed = _passed(gather(edges, axis, last), values, before)
        place = where(call("logical_and", further <= count, passed), further, place)
    return trusted(cast(place, wanted), count + 1)


def _passed(edges: Tensor, values: Tensor, before: str) -> Any:
    """True where boundaries stand before values; nan stands behind all."""
    passed = call(before, edges, values)
    if values._dtype.is_floating_point:
        passed = call("logical_or", passed, call("isnan", values))
    return passed
