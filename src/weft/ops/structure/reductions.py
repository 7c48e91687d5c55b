# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Rows of reductions and scans: sums, products, extrema and their places, running sums and products.

A reduction takes its axes and whether they are kept with size 1; a scan takes its axis. Batch rules shift axes past a
leading batch dimension.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft.engine.frontend.recorder import cast
from weft.engine.ir.strides import inverse_order
from weft.ops.primitives import (
    concat,
    conj,
    cumulate,
    flip,
    full,
    permute,
    reduce,
    reshape,
    slice_axis,
    unreduce,
)
from weft.ops.registry import NotDifferentiable, define, not_differentiable

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.backward.apply_vjp import At
    from weft.engine.frontend.tensor import Tensor
    from weft.ops.registry import Domain, Rule


require(__name__, cython.compiled)

Shape = tuple[int, ...]


# -- reductions ----------------------------------------------------------------------------------------------------


def _reduced(p: tuple[Shape, bool], shape: Shape) -> Shape:
    axes, keepdim = p
    if keepdim:
        return tuple([1 if axis in axes else size for axis, size in enumerate(shape)])
    return tuple([size for axis, size in enumerate(shape) if axis not in axes])


def _reduction(
    name: str,
    reference: Rule,
    vjp: dict[str, Rule] | NotDifferentiable,
    dtypes: str,
    jvp_kind: str = "linear",
    domain: Domain | None = None,
    sums: str = "",
    index_bound: str = "",
) -> None:
    define(
        name,
        kind="reduce",
        operands="self",
        shape=_reduced,
        lower=name,
        vjp=vjp,
        jvp_kind=jvp_kind,
        dtypes=dtypes,
        reference=lambda x, params: reference(x, axis=params[0], keepdims=params[1]),
        batch=lambda p, shapes, flags, n: (tuple([axis + 1 for axis in p[0]]), p[1]),
        is_row_independent=lambda p, shapes, axis: min(p[0], default=axis + 1) > axis,
        domain=domain
        or [((3, 4), ((1,), False)), ((3, 4), ((0, 1), True)), ((2, 3, 2), ((0, 2), False))],
        sums=sums,
        index_bound=index_bound,
    )


def _vjp_amax(g: Tensor, self: Tensor, result: Tensor, at: At) -> Any:
    """Ties share the cotangent evenly."""
    mask = cast(self == unreduce(result, at), g.dtype)
    count = reduce("sum", mask, at.params[0], keepdim=True)
    kept = reshape(g, tuple(count.shape))
    return mask * (kept / count)


def _vjp_prod(g: Tensor, self: Tensor, at: At) -> Any:
    """The product of the others, exact with any number of zeros: prefix and suffix products along a flat axis."""
    axes = at.params[0]
    shape = at.shapes[0]
    order = (*[a for a in range(len(shape)) if a not in axes], *axes)
    moved = permute(self, order)
    outer = tuple(moved.shape[: len(shape) - len(axes)])
    flat = reshape(moved, (*outer, math.prod(moved.shape[len(outer) :])))
    others = _others(flat)
    back = inverse_order(order)
    return unreduce(g, at) * conj(permute(reshape(others, tuple(moved.shape)), back))


def _others(x: Tensor) -> Any:
    axis = x.ndim - 1
    size = x.shape[axis]
    one = full((*x.shape[:-1], 1), 1, x.dtype)
    if size <= 1:
        return full(tuple(x.shape), 1, x.dtype)
    before = concat((one, cumulate("cumprod", slice_axis(x, axis, 0, size - 1), axis)), axis)
    flipped = flip(x, (axis,))
    after = flip(
        concat((one, cumulate("cumprod", slice_axis(flipped, axis, 0, size - 1), axis)), axis),
        (axis,),
    )
    return before * after


_NUMBERS, _ORDERED = "integer float complex", "bool integer float"
_reduction("sum", np.sum, {"self": lambda g, at: unreduce(g, at)}, _NUMBERS, sums="elements")
_reduction("prod", np.prod, {"self": _vjp_prod}, _NUMBERS, "rule")
_reduction("amax", np.max, {"self": _vjp_amax}, _ORDERED, "rule")
_reduction("amin", np.min, {"self": _vjp_amax}, _ORDERED, "rule")
_reduction("any", np.any, not_differentiable("logical reduction"), "bool")
_reduction("all", np.all, not_differentiable("logical reduction"), "bool")


def _arg(function: Rule) -> Any:
    def reference(x: Array, axis: Shape, keepdims: bool) -> Any:
        rest = tuple(a for a in range(x.ndim) if a not in axis)
        flat = np.transpose(x, (*rest, *axis)).reshape(*(x.shape[a] for a in rest), -1)
        out = function(flat, -1)
        return np.expand_dims(out, axis) if keepdims else out

    return reference


for _name, _function in (("argmax", np.argmax), ("argmin", np.argmin)):
    _reduction(
        _name,
        _arg(_function),
        not_differentiable("the result is an index"),
        _ORDERED,
        domain=[((3, 4), ((1,), False)), ((3, 4), ((0, 1), False))],
        index_bound="reduced",
    )


# -- scans ---------------------------------------------------------------------------------------------------------


def _scan(name: str, reference: Rule, vjp: dict[str, Rule], jvp_kind: str, combiner: str) -> None:
    define(
        name,
        kind="scan",
        form="cumulative",
        combiner=combiner,
        operands="self",
        shape=lambda p, shape: shape,
        jvp_kind=jvp_kind,
        dtypes=_NUMBERS,
        vjp=vjp,
        reference=lambda x, params: reference(x, params[0]),
        domain=[((3, 4), (1,)), ((5,), (0,))],
        batch=lambda p, shapes, flags, n: (p[0] + 1,),
    )


def _reverse_cumsum(g: Tensor, axis: int) -> Any:
    return flip(cumulate("cumsum", flip(g, (axis,)), axis), (axis,))


def _vjp_cumprod(g: Tensor, self: Tensor, result: Tensor, at: At) -> Any:
    """The products of what stands before each element, times the sum of cotangents behind it, each with the factors in
    between: s_i = g_i + x_{i+1} s_{i+1}. Exact with zeros. The recurrence is solved by doubling: log2 n steps."""
    axis = at.params[0]
    size = at.shapes[0][axis]
    if size < 2:
        return g
    one = full((*self.shape[:axis], 1, *self.shape[axis + 1 :]), 1, self.dtype)
    before = concat((one, slice_axis(result, axis, 0, size - 1)), axis)
    factors, total, reach = conj(slice_axis(self, axis, 1, size - 1)), g, 1
    while reach < size:
        rest = size - reach
        behind = factors * slice_axis(total, axis, reach, rest)
        kept = slice_axis(total, axis, rest, reach)
        total = concat((slice_axis(total, axis, 0, rest) + behind, kept), axis)
        if rest > reach:
            near, far = [slice_axis(factors, axis, start, rest - reach) for start in (0, reach)]
            factors = near * far
        reach *= 2
    return conj(before) * total


_scan(
    "cumsum", np.cumsum, {"self": lambda g, at: _reverse_cumsum(g, at.params[0])}, "linear", "sum"
)
_scan("cumprod", np.cumprod, {"self": _vjp_cumprod}, "rule", "prod")
