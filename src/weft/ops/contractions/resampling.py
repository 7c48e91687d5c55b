"""Rows of resampling: sums of a few weighted elements along an axis, which is the product of a sparse matrix and the
lines along it, and its transpose.

For each place of the result an index (taps, places) says which elements count, and weights of the same shape how much;
a tap that points outside counts nothing. Interpolation is a `resample` along one dimension after the other. Gradients
go to the elements alone: index and weights are what a size makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.ops.primitives import misfit, resample, resample_transposed
from weft.ops.registry import define

if TYPE_CHECKING:
    from weft._typing import Array, Shapes


Shape = tuple[int, ...]


def _placed(p: tuple[int, int], shape: Shape, index: Shape, weights: Shape, size: int) -> Shape:
    """Errors: ShapeError for weights that are not those of the index, and for lines without elements."""
    if len(index) != 2 or weights != index:
        raise misfit("resample", f"are not weights for an index of {list(index)}", weights)
    if not shape[p[0]]:
        raise misfit("resample", f"has no elements along {p[0]}", shape)
    return (*shape[: p[0]], size, *shape[p[0] + 1 :])


def _spread(p: tuple[int, int], shape: Shape, index: Shape, weights: Shape) -> Shape:
    """Errors: ShapeError for a source that is not as long as the index."""
    if shape[p[0]] != index[-1]:
        raise misfit("resample", f"is not {index[-1]} long along {p[0]}", shape)
    return _placed(p, shape, index, weights, p[1])


def _matrix(index: Array, weights: Array, size: int) -> Any:
    """The matrix (places, size) that an index and weights stand for."""
    matrix = np.zeros((index.shape[1], size), weights.dtype)
    for taps, shares in zip(index, weights, strict=True):
        inside = (taps >= 0) & (taps < size)
        matrix[np.flatnonzero(inside), taps[inside]] += shares[inside]
    return matrix


def _along(x: Array, axis: int, matrix: Array) -> Any:
    return np.moveaxis(np.moveaxis(x, axis, -1) @ matrix.T, -1, axis)


def _batch(
    p: tuple[int, int], shapes: Shapes, flags: tuple[bool, ...], n: int
) -> tuple[int, int] | None:
    return (p[0] + 1, p[1]) if flags == (True, False, False) else None


define(
    "resample",
    kind="scan",
    operands="self index weights",
    domain=[
        ((3, 4), (2, 5), (2, 5), (1, 4)),
        ((3, 40), (3, 37), (3, 37), (0, 3)),
        ((2, 5, 3), (4, 2), (4, 2), (1, 5)),
        ((0, 3), (2, 2), (2, 2), (1, 3)),
    ],
    shape=lambda p, shape, index, weights: _placed(p, shape, index, weights, index[-1]),
    dtypes="int32 float32 float64",
    reference=lambda x, index, weights, params: _along(
        x, params[0], _matrix(index, weights, x.shape[params[0]])
    ),
    batch=_batch,
    batch_operands=("b", "s", "s"),
    jvp_kind="linear",
    vjp={
        "self": lambda g, index, weights, at: resample_transposed(
            g, at.params[0], index, weights, at.params[1]
        )
    },
    form="resample",
)
define(
    "resample_transposed",
    kind="scan",
    operands="self index weights",
    domain=[
        ((3, 4), (2, 4), (2, 4), (1, 4)),
        ((37, 40), (3, 37), (3, 37), (0, 37)),
        ((2, 5, 3), (4, 5), (4, 5), (1, 5)),
        ((0, 3), (2, 3), (2, 3), (1, 3)),
    ],
    shape=_spread,
    dtypes="int32 float32 float64",
    reference=lambda x, index, weights, params: _along(
        x, params[0], _matrix(index, weights, params[1]).T
    ),
    batch=_batch,
    batch_operands=("b", "s", "s"),
    jvp_kind="linear",
    vjp={"self": lambda g, index, weights, at: resample(g, at.params[0], index, weights)},
    form="resample_transposed",
)
