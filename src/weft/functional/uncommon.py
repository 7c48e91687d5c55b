# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Functions that few programs call: batches summed in products, medians and quantiles without nan, running logsumexp,
renormalised slices, elements put by flat index, reductions by index.
"""

from __future__ import annotations

import math
from typing import Any

import cython
import numpy as np

from weft._build.compiled import require
from weft._typing import Scalar
from weft.engine.api.api_function import publish
from weft.engine.api.call_cache import composed_of_primitives
from weft.engine.frontend.inplace import in_place
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.resolve import rename_record
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, ShapeError, TensorIndexError, UnsupportedDTypeError
from weft.functional.indexing.gather_scatter import scatter_reduce
from weft.functional.linalg.norms import vector_norm
from weft.functional.linalg.products import bmm
from weft.functional.reductions.sums_and_extrema import picked
from weft.functional.shape.concat import cat, stack
from weft.functional.sorting.sort import lower_median, need_quantiles, quantile
from weft.functional.special.special import logaddexp
from weft.functional.support import host
from weft.functional.support.memory_formats import in_order
from weft.functional.support.return_types import TYPES
from weft.functional.support.variants import given, make_in_place
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full, where
from weft.ops.structure.ordering import NAN_IS_LEFT_OUT
from weft.tensor.arguments import (
    TYPE_NAMES,
    describe,
    need_tensor,
    widen,
    wrap_dim,
)
from weft.tensor.leaves import resize_

require(__name__, cython.compiled)


@composed_of_primitives
def addbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Scalar = 1,
    alpha: Scalar = 1,
    out: Tensor | None = None,
) -> Any:
    """beta * input + alpha * the sum of batch1 @ batch2 over the batch."""
    need_tensor("addbmm", input)
    product = bmm(widen(batch1), widen(batch2)).sum(0, dtype=widen(batch1)._dtype)
    product = product if alpha == 1 else product * alpha
    if beta != 0:
        wide = widen(input)
        product = (wide if beta == 1 else wide * beta) + product
    return given(out, cast(product, input._dtype))


def addbmm_(
    self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: int = 1
) -> Any:
    """`addbmm`, in place. As in PyTorch, a tensor that broadcasts against the products takes their shape."""
    made = addbmm(self, batch1, batch2, beta=beta, alpha=alpha)
    return in_place(self if made._shape == self._shape else resize_(self, made._shape), made)


# -- without nan -------------------------------------------------------------------------------------------------------


def _as_nanmedian(input: Tensor, dim: int, keepdim: bool) -> Any:
    return TYPES["nanmedian"](input.median(dim, keepdim))


def nanmedian(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
) -> Any:
    """The lower median of what is not nan: of all elements, or (values, indices) along a dimension."""
    if not need_tensor("nanmedian", input)._dtype.is_floating_point:
        return given(out, input.median() if dim is None else _as_nanmedian(input, dim, keepdim))
    if dim is None:
        flat = input.reshape(-1)
        kept = flat[~call("isnan", flat)]
        found = (kept if kept._shape[0] else flat).median()
        return given(out, rename_record(found, "NanmedianBackward0"))
    axis = wrap_dim(dim, len(input._shape))
    if 0 in input._shape:
        return given(out, _as_nanmedian(input, dim, keepdim))
    if not input._shape:
        parts = call("clone", input), host.from_numpy(np.zeros((), np.int64))
        return given(out, TYPES["nanmedian"](parts))
    place = lower_median(input, axis, NAN_IS_LEFT_OUT)
    result = picked("nanmedian", input, axis, place, keepdim)
    rename_record(result.values, "NanmedianBackward1")
    return given(out, result)


def nanquantile(
    input: Tensor,
    q: Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Any:
    """`quantile` of what is not nan; nan where nothing is left."""
    need_quantiles(input)
    axis = None if dim is None else wrap_dim(dim, len(input._shape))
    x = input.reshape(-1, 1) if axis is None or not input._shape else input.movedim(axis, 0)
    columns = x.reshape(x._shape[0], int(np.prod(x._shape[1:], dtype=np.int64)))
    points = q if isinstance(q, Tensor) else host.from_numpy(np.asarray(q), input._dtype)
    holes = np.isnan(host.to_numpy(columns))
    parts = []
    for k in range(columns._shape[1]):
        kept = columns[:, k][host.from_numpy(~holes[:, k])]
        parts.append(
            quantile(kept, points, interpolation=interpolation)
            if kept._shape[0]
            else full(points._shape, math.nan, input._dtype)
        )
    rest = () if axis is None or not input._shape else x._shape[1:]
    result = stack(parts, 0).reshape(*rest, *points._shape)
    if points._shape:
        result = result.movedim(-1, 0)
    if keepdim and rest and axis is not None:
        result = result.unsqueeze(points.dim() + axis)
    elif keepdim:
        result = result.reshape(*points._shape, *(1 for _ in input._shape))
    return given(out, result)


# -- running and renormalised ------------------------------------------------------------------------------------------


@composed_of_primitives
def logcumsumexp(input: Tensor, dim: int, *, out: Tensor | None = None) -> Any:
    """log(cumsum(exp(x))) along a dimension, shifted by the running maximum."""
    need_tensor("logcumsumexp", input)
    axis = wrap_dim(dim, len(input._shape))
    if input._dtype.category < 2:
        raise UnsupportedDTypeError(
            f"logcumsumexp: not implemented for '{TYPE_NAMES[input._dtype.name]}'",
            expected="a floating-point tensor",
            got=describe("input", input),
            fix="convert with .float()",
        )
    if not input._shape or not input.numel():
        return given(out, call("clone", input))
    total, step, wide = call("clone", widen(input)), 1, (slice(None),) * axis
    while step < input._shape[axis]:  # after each turn, sums over twice as many
        first, later = total[(*wide, slice(0, step))], total[(*wide, slice(step, None))]
        total = cat([first, logaddexp(later, total[(*wide, slice(0, -step))])], axis)
        step *= 2
    return given(out, cast(total, input._dtype))


@composed_of_primitives
def renorm(input: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None) -> Any:
    """Slices along a dimension with a p-norm above maxnorm, scaled down to it."""
    need_tensor("renorm", input)
    if p <= 0:
        raise ArgumentError(
            "renorm: non-positive-norm not supported", expected="p > 0", got=str(p), fix="pass 2"
        )
    if maxnorm < 0:
        raise ArgumentError(
            f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}",
            expected="maxnorm >= 0",
            got=str(maxnorm),
            fix="pass the largest norm that slices may have",
        )
    if len(input._shape) < 2:
        raise ShapeError(
            f"renorm: input needs at least 2 dimensions, got {len(input._shape)} dimensions",
            expected="two dimensions or more",
            got=describe("input", input),
            fix="unsqueeze first",
        )
    axis = wrap_dim(dim, len(input._shape))
    others = tuple(a for a in range(len(input._shape)) if a != axis)
    size = vector_norm(input, p, others, True)
    factor = where(size > maxnorm, maxnorm / (size + 1e-7), 1)
    return given(out, in_order(input * cast(factor, input._dtype.to_real())))


renorm_ = make_in_place(renorm, "renorm")

# -- by index ----------------------------------------------------------------------------------------------------------


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Any:
    """A copy with elements replaced (or added to) by flat indices."""
    need_tensor("put", input)
    need_tensor("put", index, "index", 2)
    need_tensor("put", source, "source", 3)
    if index.numel() != source.numel():
        raise TensorIndexError(
            f"put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel()}, index.numel() = {index.numel()}",
            expected="one element per index",
            got=f"{describe('index', index)}, {describe('source', source)}",
            fix="expand the source",
        )
    flat = input.reshape(-1).index_put((index.reshape(-1),), source.reshape(-1), accumulate)
    return flat.reshape(input._shape)


put_ = make_in_place(put, "put")


@composed_of_primitives
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Any:
    """Slices of source reduced (prod, mean, amax, amin) into those of a copy by index along a dimension."""
    need_tensor("index_reduce", input)
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise ArgumentError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.",
            expected="prod, mean, amax or amin",
            got=repr(reduce),
            fix="choose one of these",
        )
    if not input._shape:
        one = index_reduce(
            input.reshape(1),
            0,
            index.reshape(-1),
            source.reshape(-1),
            reduce,
            include_self=include_self,
        )
        return given(out, one.reshape(()))
    axis = wrap_dim(dim, len(input._shape))
    shape = [1] * len(source._shape)
    shape[axis] = index.numel()
    places = cast(index, dtypes.int64).reshape(*shape).expand(source._shape)
    return given(
        out, scatter_reduce(input, axis, places, source, reduce, include_self=include_self)
    )


def is_nonzero(input: Tensor) -> bool:
    """True if the only element is not zero. Errors: RuntimeError unless there is one element."""
    if need_tensor("is_nonzero", input).numel() != 1:
        several = "no values" if input.numel() == 0 else "more than one value"
        raise ArgumentError(
            f"Boolean value of Tensor with {several} is ambiguous",
            expected="one element",
            got=f"{input.numel()}",
            fix="reduce it with any() or all()",
        )
    return bool(input)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """True if two tensors have one shape."""
    need_tensor("is_same_size", other, "other", 2)
    return bool(need_tensor("is_same_size", input)._shape == other._shape)


def _has_compatible_shallow_copy_type(input: Tensor, from_: Tensor) -> bool:
    """True if `input.data` can be set to `from_`: both lie in the same way, on one device."""
    return bool(input.layout == from_.layout and input.device.type == from_.device.type)


def is_distributed(input: Tensor) -> bool:
    """True if a tensor is distributed over several processes: never."""
    need_tensor("is_distributed", input)
    return False


index_reduce_ = make_in_place(index_reduce, "index_reduce")
publish(globals())
