"""`scatter_reduce` by product, minimum and maximum.

Extrema are primitives, and so is a product that no derivative follows. One that a derivative follows is a segmented
scan over the elements in the order of their indices, which NumPy finds (the index is read): composed of
multiplications, so that derivatives of any order are right for zeros, too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir import tape as tapes
from weft.functional.support import host
from weft.functional.support.index_bounds import check_index
from weft.ops.primitives import (
    concat,
    full,
    gather,
    scatter,
    scatter_add,
    scatter_extremum,
    scatter_product,
    slice_axis,
    where,
)

if TYPE_CHECKING:
    from weft.engine.ir.dtype import DType


def _places(base: Tensor, axis: int, index: Tensor) -> Any:
    """The values of an index. Errors: IndexRangeError."""
    places = host.to_numpy(index)  # runs what is pending: only now can it be looked at
    check_index("scatter_reduce", index, base._shape[axis], axis, False)
    return places


def touched_by(base: Tensor, axis: int, index: Tensor) -> Any:
    """A mask of the elements that an index names."""
    nothing = full(base._shape, False, dtypes.bool_)
    return scatter(nothing, axis, index, full(index._shape, True, dtypes.bool_))


def _is_followed(*given: Tensor) -> bool:
    """True if derivatives may follow of what is computed of these."""
    mode = tapes.tape().mode
    return mode.duals is not None or (mode.grad and any(x.requires_grad for x in given))


def fold_product(base: Tensor, axis: int, index: Tensor, source: Tensor, include_self: bool) -> Any:
    """The product of what lands on each element."""
    if not _is_followed(base, source):
        if not include_self:
            base = scatter(base, axis, index, full(index._shape, 1, base._dtype))
        return scatter_product(base, axis, index, source)
    places = _places(base, axis, index)
    order = host.answering(np.argsort, places, axis=axis, kind="stable")
    places = np.take_along_axis(places, order, axis)
    size = places.shape[axis]
    x = gather(source, axis, host.from_numpy(order))
    step = 1
    while step < size:
        same = np.zeros(places.shape, bool)
        later = (slice(None),) * axis + (slice(step, None),)
        earlier = (slice(None),) * axis + (slice(None, -step),)
        same[later] = places[later] == places[earlier]
        ones = full((*x._shape[:axis], step, *x._shape[axis + 1 :]), 1, x._dtype)
        before = concat((ones, slice_axis(x, axis, 0, size - step)), axis)
        x = x * where(host.from_numpy(same), before, 1)
        step *= 2
    last = np.ones(places.shape, bool)
    last[(slice(None),) * axis + (slice(None, -1),)] = np.diff(places, axis=axis) != 0
    landed = where(host.from_numpy(last), x, 0)
    zeros = full(base._shape, 0, base._dtype)
    product = scatter_add(zeros, axis, host.from_numpy(places), landed)
    touched = touched_by(base, axis, index)
    if include_self:
        return base * where(touched, product, 1)
    return where(touched, product, base)


def fold_extremum(
    base: Tensor, axis: int, index: Tensor, source: Tensor, include_self: bool, largest: bool
) -> Any:
    """The largest or smallest of what lands on each element."""
    dtype = base._dtype
    if dtype is dtypes.bool_:  # or, and
        counts = cast(base, dtypes.uint8), axis, index, cast(source, dtypes.uint8)
        return fold_extremum(*counts, include_self, largest) != 0
    if not include_self:
        base = scatter(base, axis, index, full(index._shape, _identity(dtype, largest), dtype))
    return scatter_extremum(base, axis, index, source, largest)


def _identity(dtype: DType, largest: bool) -> Any:
    """The least (or largest) number of a dtype, the identity of the extremum."""
    if dtype.category > 1:
        return -math.inf if largest else math.inf
    limits = np.iinfo(dtype.name)
    return int(limits.min if largest else limits.max)
