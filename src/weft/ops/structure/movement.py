# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Rows that move, repeat and join elements, or make them: views, strided regions, joins, sources, rows of batches.

A view row gives the strides of its result over its operand's memory (`strides`), so that no element moves; its
derivative is the region written back (`put`). Batch rules shift dimensions past a leading batch dimension.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import (
    contiguous_strides,
    expanded_strides,
    inverse_order,
    overlaps,
    reordered,
    reshape_strides,
)
from weft.ops.primitives import (
    concat,
    embed,
    flip,
    full,
    iota,
    permute,
    put,
    reshape,
    resized,
    scalar,
    slice_axis,
    strided,
    sum_to,
    take_add,
)
from weft.ops.registry import define, not_differentiable

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.backward.apply_vjp import At
    from weft.engine.frontend.tensor import Tensor
    from weft.ops.registry import Domain, Rule


require(__name__, cython.compiled)

Shape = tuple[int, ...]


def _region(at: At, row_strides: Rule) -> tuple[int, Shape]:
    """Offset and strides of a view of a row-major operand."""
    shape = at.shapes[0]
    strides, offset = row_strides(at.params, shape, contiguous_strides(shape), 0)
    return offset, strides


def _view(
    name: str,
    shape: Rule,
    strides: Rule,
    reference: Rule,
    domain: Domain,
    batch: Rule,
    vjp: Rule | None = None,
    grad_name: str = "",
    is_row_independent: Rule | None = None,
    form: str = "other",
) -> None:
    def write_back(g: Tensor, at: At) -> Any:
        return embed(g, at.shapes[0], *_region(at, strides))

    define(
        name,
        kind="view",
        operands="self",
        reference=reference,
        domain=domain,
        shape=shape,
        strides=strides,
        batch=batch,
        is_row_independent=is_row_independent,
        vjp={"self": vjp or write_back},
        jvp_kind="linear",
        grad_name=grad_name,
        form=form,
    )


@cython.cfunc
def _drop(values: tuple[int, ...], axis: cython.Py_ssize_t) -> tuple[int, ...]:
    return values[:axis] + values[axis + 1 :]


_view(
    "view",
    lambda target, shape: target,
    lambda target, shape, strides, offset: (reshape_strides(shape, strides, target), offset),
    lambda x, params: np.reshape(x, params),
    [((2, 3), (3, 2)), ((4,), (2, 1, 2))],
    lambda target, shapes, flags, n: (n, *target),
    lambda g, at: reshape(g, at.shapes[0]),
    form="reshape",
)
_view(
    "permute",
    lambda order, shape: reordered(shape, order),
    lambda order, shape, strides, offset: (reordered(strides, order), offset),
    lambda x, params: np.transpose(x, params),
    [((2, 3, 4), (2, 0, 1))],
    lambda order, shapes, flags, n: (0, *[axis + 1 for axis in order]),
    lambda g, at: permute(g, inverse_order(at.params)),
    is_row_independent=lambda p, shapes, axis: p[: axis + 1] == tuple(range(axis + 1)),
    form="permute",
)
_view(
    "expand",
    lambda target, shape: target,
    lambda target, shape, strides, offset: (expanded_strides(shape, strides, target), offset),
    lambda x, params: np.broadcast_to(x, params),
    [((2, 1), (3, 2, 4)), ((2, 1), (2, 4))],
    # New leading dimensions would come before the batch dimension: such expansions stay apart.
    lambda target, shapes, flags, n: (n, *target) if len(target) == len(shapes[0]) else None,
    lambda g, at: sum_to(g, at.shapes[0]),
    form="expand",
)
_view(
    "slice",
    lambda p, shape: resized(shape, p[0], p[2]),
    lambda p, shape, strides, offset: (
        resized(strides, p[0], strides[p[0]] * p[3]),
        offset + p[1] * strides[p[0]],
    ),
    lambda x, params: x[
        (slice(None),) * params[0]
        + (
            slice(
                params[1],
                params[1] + (params[2] - 1) * params[3] + 1 if params[2] else params[1],
                params[3],
            ),
        )
    ],
    [((6,), (0, 1, 2, 2)), ((3, 4), (1, 1, 3, 1))],
    lambda p, shapes, flags, n: (p[0] + 1, *p[1:]),
    is_row_independent=lambda p, shapes, axis: p[0] > axis,
    form="slice",
)
_view(
    "select",
    lambda p, shape: _drop(shape, p[0]),
    lambda p, shape, strides, offset: (_drop(strides, p[0]), offset + p[1] * strides[p[0]]),
    lambda x, params: np.take(x, params[1], params[0]),
    [((3, 4), (1, 2))],
    lambda p, shapes, flags, n: (p[0] + 1, p[1]),
    is_row_independent=lambda p, shapes, axis: p[0] > axis,
    form="select",
)
_view(
    "unfold",
    lambda p, shape: (*resized(shape, p[0], (shape[p[0]] - p[1]) // p[2] + 1), p[1]),
    lambda p, shape, strides, offset: (
        (*resized(strides, p[0], strides[p[0]] * p[2]), strides[p[0]]),
        offset,
    ),
    lambda x, params: np.moveaxis(
        np.lib.stride_tricks.sliding_window_view(x, params[1], params[0])[
            (slice(None),) * params[0] + (slice(None, None, params[2]),)
        ],
        -1,
        -1,
    ),
    [((7,), (0, 3, 2)), ((2, 5), (1, 2, 1))],
    lambda p, shapes, flags, n: (p[0] + 1, p[1], p[2]),
    lambda g, at: _fold(g, at),
)
_view(
    "diagonal",
    lambda p, shape: (*_drop(_drop(shape, max(p[1:])), min(p[1:])), _diagonal_size(p, shape)),
    lambda p, shape, strides, offset: (
        (*_drop(_drop(strides, max(p[1:])), min(p[1:])), strides[p[1]] + strides[p[2]]),
        offset + (p[0] * strides[p[2]] if p[0] >= 0 else -p[0] * strides[p[1]]),
    ),
    lambda x, params: np.diagonal(x, *params),
    [((3, 4), (1, 0, 1))],
    lambda p, shapes, flags, n: (p[0], p[1] + 1, p[2] + 1),
)
_view(
    "flip",
    lambda axes, shape: shape,
    lambda axes, shape, strides, offset: (
        tuple([-s if i in axes else s for i, s in enumerate(strides)]),
        offset + sum([strides[i] * max(shape[i] - 1, 0) for i in axes]),
    ),
    lambda x, params: np.flip(x, params),
    [((2, 3), (1,))],
    lambda axes, shapes, flags, n: tuple([axis + 1 for axis in axes]),
    lambda g, at: flip(g, at.params),
)


def _diagonal_size(p: Shape, shape: Shape) -> int:
    rows, columns = shape[p[1]], shape[p[2]]
    return max(min(rows, columns - p[0]) if p[0] >= 0 else min(rows + p[0], columns), 0)


def _fold(g: Tensor, at: At) -> Any:
    """The transpose of unfold."""
    axis, size, step = at.params
    if g.shape[axis] == 0 or size == 0:
        return full(at.shapes[0], 0, g.dtype)
    return sum_of_windows(g, axis, step, at.shapes[0])


def sum_of_windows(g: Tensor, axis: int, step: int, shape: Shape, gap: int = 1) -> Any:
    """Elements of windows, the last dimension of g, summed back along an axis of `shape`: one strided region per place
    in the window. Windows begin `step` apart, their elements are `gap` apart."""
    strides = contiguous_strides(shape)
    target = resized(strides, axis, strides[axis] * step)
    total = None
    for place in range(g.shape[-1]):
        piece = reshape(slice_axis(g, g.ndim - 1, place, 1), tuple(g.shape[:-1]))
        part = embed(piece, shape, place * gap * strides[axis], target)
        total = part if total is None else total + part
    return total


# -- strided regions -----------------------------------------------------------------------------------------------


def _as_strided(x: Array, shape: Shape, params: tuple[int, Shape]) -> Any:
    offset, strides = params
    flat = np.ascontiguousarray(x).reshape(-1)
    return np.lib.stride_tricks.as_strided(
        flat[offset:], shape, [s * flat.itemsize for s in strides]
    )


def _put_numpy(base: Array, new: Array, params: tuple[int, Shape]) -> Any:
    out = np.array(base, order="C")
    if new.size:
        _as_strided_of(out, new.shape, params)[...] = new
    return out


def _as_strided_of(out: Array, shape: Shape, params: tuple[int, Shape]) -> Any:
    offset, strides = params
    return np.lib.stride_tricks.as_strided(
        out.reshape(-1)[offset:], shape, [s * out.itemsize for s in strides]
    )


def _vjp_strided(g: Tensor, at: At) -> Any:
    """The region written back; where its elements overlap, they add up."""
    offset, strides = at.params
    shape, region = at.shapes[0], tuple(g.shape)
    if not overlaps(region, strides):
        return embed(g, shape, offset, strides)
    places: Any = scalar(offset, dtypes.int64)
    for axis, (size, step) in enumerate(zip(region, strides, strict=True)):
        places = places + reshape(iota((size,)), (size,) + (1,) * (len(region) - axis - 1)) * step
    flat = take_add(
        full((math.prod(shape),), 0, g.dtype),
        0,
        reshape(places, (math.prod(region),)),
        reshape(g, (math.prod(region),)),
    )
    return reshape(flat, shape)


define(
    "strided",
    kind="view",
    operands="self",
    reference=lambda x, shape, params: _as_strided(x, shape, params),
    domain=[((6,), (1, (2,)), (2,))],
    shape=lambda p, shape: None,
    strides=lambda p, shape, strides, offset: (p[1], offset + p[0]),
    batch=lambda p, shapes, flags, n: (p[0], (math.prod(shapes[0]), *p[1])),
    vjp={"self": lambda g, at: _vjp_strided(g, at)},
    jvp_kind="linear",
    grad_name="AsStridedBackward0",
    form="strided",
)
define(
    "put",
    kind="region",
    operands="self source",
    reference=_put_numpy,
    domain=[((6,), (2,), (1, (2,)))],
    shape=lambda p, base, new: base,
    batch=lambda p, shapes, flags, n: (p[0], (math.prod(shapes[0]), *p[1])),
    vjp={
        "self": lambda g, at: put(g, full(at.shapes[1], 0, g.dtype), *at.params),
        "source": lambda g, at: strided(g, at.shapes[1], *at.params),
    },
    jvp_kind="linear",
    grad_name="torch::autograd::CopySlices",
    form="update",
    index_bound="joined",
)
define(
    "cat",
    kind="region",
    operands="tensors",
    reference=lambda *xs, params: np.concatenate(xs, params[0]),
    domain=[((2, 3), (1, 3), (0,))],
    shape=lambda p, *shapes: resized(shapes[0], p[0], sum([s[p[0]] for s in shapes])),
    batch=lambda p, shapes, flags, n: (p[0] + 1,),
    is_row_independent=lambda p, shapes, axis: p[0] > axis,
    vjp={"tensors": lambda g, at: _vjp_cat(g, at)},
    jvp_kind="linear",
    form="concat",
    index_bound="joined",
    is_identity_of_one=True,
    is_variadic=True,
)


def _vjp_cat(g: Tensor, at: At) -> list[Any]:
    axis, start, parts = at.params[0], 0, []
    for shape in at.shapes:
        parts.append(slice_axis(g, axis, start, shape[axis]))
        start += shape[axis]
    return parts


define(
    "stack",
    kind="region",
    operands="tensors",
    reference=lambda *xs, params: np.stack(xs, params[0]),
    domain=[((2, 3), (2, 3), (1,))],
    shape=lambda p, *shapes: (*shapes[0][: p[0]], len(shapes), *shapes[0][p[0] :]),
    lower=lambda *tensors: _lower_stack(tensors[:-1], tensors[-1][0]),
    batch=lambda p, shapes, flags, n: (p[0] + 1,),
    vjp={"tensors": lambda g, at: _vjp_stack(g, at)},
    jvp_kind="linear",
    form="stack",
    is_identity_of_one=True,
    is_variadic=True,
    index_bound="joined",
)


def _lower_stack(tensors: tuple[Tensor, ...], axis: int) -> Any:
    """Joined, each with one element along the new dimension."""
    shape = tuple(tensors[0].shape)
    single = (*shape[:axis], 1, *shape[axis:])
    return concat(tuple([reshape(tensor, single) for tensor in tensors]), axis)


def _vjp_stack(g: Tensor, at: At) -> list[Any]:
    axis = at.params[0]
    return [reshape(slice_axis(g, axis, place, 1), shape) for place, shape in enumerate(at.shapes)]


# -- sources -------------------------------------------------------------------------------------------------------

define(
    "iota",
    kind="source",
    operands="",
    dtypes="int64",
    domain=[(((2, 3), 0),), (((2, 3), 1),)],
    reference=lambda params: np.broadcast_to(
        np.arange(int(np.prod(params[0][params[1] :]))).reshape(params[0][params[1] :]), params[0]
    ),
    shape=lambda p: p[0],
    dtype=lambda p: dtypes.int64,
    vjp=not_differentiable("positions are constants"),
    index_bound="count",
)


# -- rows of batches -----------------------------------------------------------------------------------------------


def _gather_rows_numpy(*sources: Array, payload: tuple[Any, Any, Any], shape: Shape) -> Any:
    numbers, rows, offsets = payload
    bounds = range(len(numbers) + 1) if offsets is None else offsets
    out = np.zeros((shape[0], math.prod(shape[1:])), sources[0].dtype if sources else float)
    for row in range(shape[0]):
        for entry in range(bounds[row], bounds[row + 1]):
            source = np.ascontiguousarray(sources[numbers[entry]])
            place = max(rows[entry], 0)
            out[row] += source.reshape(-1, out.shape[1])[place] if out.shape[1] else 0
    return out.reshape(shape)


define(
    "gather_rows",
    kind="rows",
    operands="sources",
    reference=_gather_rows_numpy,
    domain=[
        ((2, 3), (3,), ([0, 0, 1], [1, 0, -1], None), (3, 3)),
        ((2, 3), (3,), ([0, 1, 0], [0, -1, 1], [0, 2, 3]), (2, 3)),
    ],
    shape=lambda p, *shapes: None,
    dtypes="bool integer float complex",
    vjp=not_differentiable("made by the batch stage, behind the recorded graph's edges"),
)
