"""Rows of resampling: sums of weighted elements along an axis, which is the product of a sparse matrix and the lines
along it, its transpose, and its derivative by the matrix; and the largest of the elements instead of their sum.

For each place of the result an index (taps, places) says which elements count, and weights of the same shape how much;
a tap that points outside counts nothing. Interpolation is a `resample` along one dimension after the other; bags of
embeddings are one of a table, whose taps are the rows of a bag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.ir import dtype as dtypes
from weft.ops.primitives import misfit, resample, resample_products, resample_transposed
from weft.ops.registry import define, not_differentiable

if TYPE_CHECKING:
    from weft._typing import Array, Shapes


Shape = tuple[int, ...]


def _placed(p: tuple[int, int], shape: Shape, index: Shape, weights: Shape, size: int) -> Shape:
    """Errors: ShapeError for weights that are not those of the index, and for lines without elements."""
    if len(index) != 2 or weights != index:
        raise misfit("resample", f"are not weights for an index of {list(index)}", weights)
    if not shape[p[0]]:
        raise misfit("resample", f"has no elements along {p[0]}", shape)
    return _beside(shape, p[0], size)


def _beside(shape: Shape, axis: int, size: int) -> Shape:
    """A shape with another size along an axis."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def _multiplied(p: tuple[int, int], shape: Shape, index: Shape, cotangent: Shape) -> Shape:
    """Errors: ShapeError for a cotangent that is not one of what is resampled."""
    if len(index) != 2 or cotangent != _beside(shape, p[0], index[-1]):
        raise misfit("resample_products", f"is no resampling of {list(shape)}", cotangent)
    return index


def _products_numpy(x: Array, index: Array, cotangent: Array, params: tuple[int, int]) -> Any:
    axis, size = params
    lines, sums = (np.moveaxis(a, axis, 0).reshape(a.shape[axis], -1) for a in (x, cotangent))
    inside = (index >= 0) & (index < size)
    found = np.where(inside[..., None], lines[np.where(inside, index, 0)], 0)
    return (found * sums).sum(-1, dtype=x.dtype)  # (taps, places, rest) -> (taps, places)


def _largest_numpy(x: Array, index: Array, params: tuple[int, int]) -> Any:
    axis, size = params
    lines = np.moveaxis(x, axis, 0)
    found = np.full((index.shape[1], *lines.shape[1:]), -1, np.int64)
    for taps in index:
        for place, at in enumerate(taps):
            if 0 <= at < size:
                before = found[place]
                best = np.take_along_axis(lines, before[None].clip(0), 0)[0]
                found[place] = np.where((before < 0) | (lines[at] > best), at, before)
    return np.moveaxis(found, 0, axis)


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
    jvp_kind="multilinear",
    vjp={
        "self": lambda g, index, weights, at: resample_transposed(
            g, at.params[0], index, weights, at.params[1]
        ),
        "weights": lambda g, self, index, at: resample_products(self, at.params[0], index, g),
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
    jvp_kind="multilinear",
    vjp={
        "self": lambda g, index, weights, at: resample(g, at.params[0], index, weights),
        "weights": lambda g, self, index, at: resample_products(g, at.params[0], index, self),
    },
    form="resample_transposed",
)
define(
    "resample_products",
    kind="scan",
    operands="self index cotangent",
    domain=[
        ((3, 4), (2, 5), (3, 5), (1, 4)),
        ((37, 40), (3, 7), (7, 40), (0, 37)),
        ((2, 5, 3), (4, 2), (2, 2, 3), (1, 5)),
        ((0, 3), (2, 2), (0, 2), (1, 3)),
    ],
    shape=_multiplied,
    dtypes="int32 float32 float64",
    reference=_products_numpy,
    jvp_kind="multilinear",
    vjp={
        "self": lambda g, index, cotangent, at: resample_transposed(
            cotangent, at.params[0], index, g, at.params[1]
        ),
        "cotangent": lambda g, self, index, at: resample(self, at.params[0], index, g),
    },
    form="resample",
    combiner="products",
)
define(
    "resample_largest",
    kind="scan",
    operands="self index",
    domain=[
        ((3, 4), (2, 5), (1, 4)),
        ((37, 40), (3, 7), (0, 37)),
        ((2, 5, 3), (4, 2), (1, 5)),
        ((0, 3), (2, 2), (1, 3)),
    ],
    shape=lambda p, shape, index: _beside(shape, p[0], index[-1]),
    dtype=lambda params, d: dtypes.int64,
    dtypes="int32 float32 float64",
    reference=_largest_numpy,
    vjp=not_differentiable("it returns indices"),
    form="resample",
    combiner="largest",
)
