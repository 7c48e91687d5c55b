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


def _order_numpy(x: Array, params: tuple[int, int, bool]) -> Any:
    axis, kept, descending = params
    if descending:
        order = x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable")
        order = np.flip(order, axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    return np.take(order, range(kept), axis)


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
