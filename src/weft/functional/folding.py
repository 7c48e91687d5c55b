"""`scatter_reduce` by product, minimum and maximum.

The product is a segmented scan over the elements in the order of their indices, which NumPy finds (the index is read):
composed of multiplications, so that derivatives of any order are right also beside zeros. Extrema are found by NumPy on
values read at the call; their gradient is split evenly among ties, as PyTorch's is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.autograd.function import Function
from weft.engine.ir import dtype as dtypes
from weft.functional import host
from weft.functional.ranges import check_index
from weft.ops.primitives import concat, full, gather, scatter, scatter_add, slice_axis, where
from weft.ops.primitives import elementwise as call


def _places(base: Any, axis: int, index: Any) -> Any:
    """The values of an index. Errors: IndexRangeError."""
    places = host.to_numpy(index)  # runs what is pending: only now can it be looked at
    check_index("scatter_reduce", index, base._shape[axis], axis, False)
    return places


def touched_by(base: Any, axis: int, index: Any) -> Any:
    """Which elements an index names."""
    nothing = full(base._shape, False, dtypes.bool_)
    return scatter(nothing, axis, index, full(index._shape, True, dtypes.bool_))


def fold_product(base: Any, axis: int, index: Any, source: Any, include_self: bool) -> Any:
    """The product of what lands on each element."""
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


def fold_extreme(
    base: Any, axis: int, index: Any, source: Any, include_self: bool, largest: bool
) -> Any:
    """The largest or smallest of what lands on each element."""
    return ScatterReduce.apply(base, source, index, axis, include_self, largest)


class ScatterReduce(Function):
    """The record of a minimum or maximum."""

    _ending = "Backward0"

    @staticmethod
    def forward(
        ctx: Any, base: Any, source: Any, index: Any, axis: int, include_self: bool, largest: bool
    ) -> Any:
        """The extrema, on values that are read."""
        found = host.to_numpy(base).copy()
        given, places = host.to_numpy(source), _places(base, axis, index)
        spread = list(np.ix_(*[np.arange(count) for count in places.shape]))
        spread[axis] = places
        if not include_self:
            kind = found.dtype.kind
            limits = np.finfo(found.dtype) if kind == "f" else None
            if limits is not None:
                worst = -np.inf if largest else np.inf
            elif kind == "b":
                worst = not largest
            else:
                worst = np.iinfo(found.dtype).min if largest else np.iinfo(found.dtype).max
            found[tuple(spread)] = worst
        with np.errstate(invalid="ignore"):  # nan is a value like others
            (np.maximum if largest else np.minimum).at(found, tuple(spread), given)
        result = host.from_numpy(found, base._dtype)
        ctx.axis, ctx.include_self = axis, include_self
        ctx.save_for_backward(base, source, index, result)
        return result

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        """An even share for each of those that are the extremum."""
        own, ties, index, count = _shares(ctx)
        share = g / count
        return where(own, share, 0), where(ties, gather(share, ctx.axis, index), 0), *(None,) * 4

    @staticmethod
    def jvp(ctx: Any, moved: Any, source_moved: Any, *rest: Any) -> Any:
        """The mean of their tangents."""
        own, ties, index, count = _shares(ctx)
        total = scatter_add(where(own, moved, 0), ctx.axis, index, where(ties, source_moved, 0))
        return total / count


def _shares(ctx: Any) -> tuple[Any, Any, Any, Any]:
    """Which elements of both are the extremum, the index, and how many share each (1 where nothing lands)."""
    base, source, index, result = ctx.saved_tensors
    own = call("eq", base, result)
    if not ctx.include_self:
        own = where(touched_by(base, ctx.axis, index), False, True)
    ties = call("eq", source, gather(result, ctx.axis, index))
    zeros = full(base._shape, 0, base._dtype)
    ones = where(ties, 1, full(index._shape, 0, base._dtype))
    count = scatter_add(where(own, 1, zeros), ctx.axis, index, ones)
    return own, ties, index, where(call("eq", count, 0), 1, count)
