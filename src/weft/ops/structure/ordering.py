"""Rows that give places in an order: the first ones of a stable sort along an axis, and where running extrema stand.

nan is the largest element, and an extremum from where it occurs. Values are gathered by the places, which is where
gradients go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.ir import dtype as dtypes
from weft.ops.registry import define, not_differentiable

if TYPE_CHECKING:
    from weft._typing import Array


_WHY = not_differentiable("the result is an index")
_ORDERED = "bool integer float"
# What nan does in types that have it; in others the number alone says. Left out: the lower median of the others.
NAN_IS_LARGEST, NAN_WINS, NAN_IS_LEFT_OUT = range(3)


def _order_numpy(x: Array, params: tuple[int, int, bool]) -> Any:
    axis, kept, descending = params
    if descending:
        order = x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable")
        order = np.flip(order, axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    return np.take(order, range(kept), axis)


def _nth_numpy(x: Array, params: tuple[int, int, int, bool]) -> Any:
    axis, number, nan, first = params
    order = np.argsort(x, axis, kind="stable")
    others = (x == x).sum(axis, keepdims=True)  # noqa: PLR0124 - what is not nan
    where = np.full_like(others, number)
    if nan == NAN_WINS:
        where = np.where(others < x.shape[axis], others, number)
    elif nan == NAN_IS_LEFT_OUT and x.dtype.kind == "f":
        where = np.maximum(others - 1, 0) // 2
    place = np.take_along_axis(order, where, axis)
    if not first:
        return place
    value = np.take_along_axis(x, place, axis)
    same = (x == value) | ((x != x) & (value != value))  # noqa: PLR0124
    return np.expand_dims(same.argmax(axis), axis)


def _running_numpy(x: Array, params: tuple[int, bool]) -> Any:
    axis, smallest = params
    best = (np.minimum if smallest else np.maximum).accumulate(x, axis)
    places = np.arange(x.shape[axis]).reshape(-1, *(1,) * (x.ndim - 1 - axis))
    level = (x == best) | (x != x)
    return np.maximum.accumulate(np.where(level, places, 0), axis)


define(
    "order",
    kind="scan",
    operands="self",
    reference=_order_numpy,
    domain=[
        ((3, 40), (1, 40, False)),
        ((40, 3), (0, 40, True)),
        ((2, 300), (1, 7, True)),
        ((2, 300), (1, 300, False)),
        ((0, 3), (1, 2, False)),
        ((1,), (0, 1, False)),
    ],
    shape=lambda p, shape: (*shape[: p[0]], p[1], *shape[p[0] + 1 :]),
    dtype=lambda params, d: dtypes.int64,
    dtypes=_ORDERED,
    vjp=_WHY,
    batch=lambda p, shapes, flags, n: (p[0] + 1, *p[1:]),
    is_row_independent=lambda p, shapes, axis: p[0] > axis,
    form="order",
    index_bound="along",
)
define(
    "nth_place",
    kind="scan",
    operands="self",
    reference=_nth_numpy,
    domain=[
        ((3, 40), (1, 5, NAN_IS_LARGEST, False)),
        ((40, 3), (0, 19, NAN_WINS, False)),
        ((2, 300), (1, 299, NAN_IS_LEFT_OUT, False)),
        ((2, 300), (1, 0, NAN_IS_LARGEST, True)),
        ((0, 3), (1, 2, NAN_IS_LARGEST, False)),
        ((1,), (0, 0, NAN_WINS, True)),
    ],
    shape=lambda p, shape: (*shape[: p[0]], 1, *shape[p[0] + 1 :]),
    dtype=lambda params, d: dtypes.int64,
    dtypes=_ORDERED,
    vjp=_WHY,
    batch=lambda p, shapes, flags, n: (p[0] + 1, *p[1:]),
    is_row_independent=lambda p, shapes, axis: p[0] > axis,
    form="order",
    combiner="nth",
    index_bound="along",
)
define(
    "running_place",
    kind="scan",
    operands="self",
    reference=_running_numpy,
    domain=[((3, 40), (1, False)), ((40, 3), (0, True)), ((0, 3), (0, False)), ((5,), (0, True))],
    shape=lambda p, shape: shape,
    dtype=lambda params, d: dtypes.int64,
    dtypes=_ORDERED,
    vjp=_WHY,
    batch=lambda p, shapes, flags, n: (p[0] + 1, *p[1:]),
    is_row_independent=lambda p, shapes, axis: p[0] > axis,
    form="running",
    index_bound="along",
)
