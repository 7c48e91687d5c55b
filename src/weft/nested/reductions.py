"""Reductions and operations along dimensions of ragged tensors: sum, mean, amax, norm, softmax, cumsum, ...

Over uniform dimensions the dense function does the work. Over the batch and ragged dimensions, sums add the entries of
a group by index, in one kernel; what is no sum runs on groups padded together with what does not count, a few at most
(`weft.nested.rows.GroupPlan`), whatever the number of items.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft import Tensor
from weft._typing import Dims, Shape
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, DimensionError, NotDefinedError, ShapeError
from weft.functional.linalg.norms import vector_norm
from weft.nested.elementwise import apply
from weft.nested.rows import GroupPlan
from weft.nested.tensor import NestedTensor, shape_text
from weft.ops.primitives import take, take_add
from weft.tensor.arguments import is_empty

Fold = Callable[[Any], Any]


# -- dimensions ------------------------------------------------------------------------------------


def dimensions(input: NestedTensor, dim: int | Shape) -> tuple[int, ...]:
    """The dimensions that an argument names; all for None and ()."""
    if dim is None or is_empty(dim):
        return tuple(range(input.ndim))
    given = dim if isinstance(dim, (tuple, list)) else (dim,)
    found = tuple(sorted(input.dimension(int(one)) for one in given))
    if len(set(found)) != len(found):
        raise ArgumentError(
            f"dim {found[0]} appears multiple times in the list of dims",
            expected="different dimensions",
            got=str(dim),
            fix="name each once",
        )
    return found


def grouping(input: NestedTensor, removed: tuple[int, ...]) -> GroupPlan:
    """The entries by what is left of the batch and the ragged dimensions."""
    keep = [0] if 0 not in removed else []
    keep += [level + 1 for level, dim in enumerate(input.dims) if dim not in removed]
    if 0 not in keep and len(keep) > 1:
        raise NotDefinedError(
            "a reduction over the batch leaves several ragged dimensions",
            expected="a reduction over all ragged dimensions but one",
            got=f"{shape_text(input)} over {list(removed)}",
            fix="reduce over the others too, or pad with .to_padded_tensor(value)",
        )
    return input.rows.plan(tuple(keep))


def shaped(
    values: Tensor, input: NestedTensor, removed: tuple[int, ...], keepdim: bool, plan: GroupPlan
) -> Any:
    """The result of a reduction. Shapes: values (groups, *uniform dimensions that are left)."""
    left = [dim for dim in range(input.ndim) if dim not in removed]
    ragged = [dim for dim in input.dims if dim not in removed]
    if plan.levels and 0 in left:
        if not keepdim:
            return NestedTensor(values, plan.levels[-1], tuple(left.index(dim) for dim in ragged))
        uniform = [dim for dim in range(1, input.ndim) if dim not in ragged]
        for axis, dim in enumerate(uniform):
            if dim in removed:
                values = values.unsqueeze(axis + 1)
        return NestedTensor(values, plan.levels[-1], tuple(ragged))
    if 0 in left or ragged:
        first = 0 if 0 in left else ragged[0]
        values = values.movedim(0, sum(dim < first for dim in left))
    else:
        values = values.squeeze(0)
    if keepdim:
        for dim in removed:
            values = values.unsqueeze(dim)
    return values


def _split(input: NestedTensor, dims: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """The axes of the values among dimensions, and whether there are others."""
    axes = tuple(input.axis(dim) for dim in dims if dim in input.uniform)
    return axes, len(axes) < len(dims)


# -- folding groups --------------------------------------------------------------------------------


def segment_sum(values: Tensor, plan: GroupPlan) -> Any:
    """The sum of each group. Shapes: (entries, *) -> (groups, *)."""
    base = weft.zeros((plan.groups, *values.shape[1:]), dtype=values.dtype)
    return take_add(base, 0, plan.index, values)


def lowest(dtype: DType) -> Any:
    """The number that is never larger than an element: the identity of a maximum."""
    if dtype is weft.bool:
        return False
    return -math.inf if dtype.is_floating_point else weft.iinfo(dtype).min


def highest(dtype: DType) -> Any:
    """The number that is never smaller than an element: the identity of a minimum."""
    if dtype is weft.bool:
        return True
    return math.inf if dtype.is_floating_point else weft.iinfo(dtype).max


def padded_groups(values: Tensor, plan: GroupPlan, fill: float) -> list[Any]:
    """The entries of each bucket, padded: (groups, longest, *)."""
    if any(not bucket.full for bucket in plan.buckets):
        edge = weft.full((1, *values.shape[1:]), fill, dtype=values.dtype)
        values = weft.cat([values, edge])
    return [take(values, 0, bucket.index) for bucket in plan.buckets]


def fold_groups(values: Tensor, plan: GroupPlan, fill: float, fold: Fold, empty: Any) -> Any:
    """`fold` of each group, which reduces dimension 1. Shapes: (entries, *) -> (groups, *)."""
    parts = [fold(padded) for padded in padded_groups(values, plan, fill)]
    missing = int((plan.counts == 0).sum())
    if missing:
        like = parts[0] if parts else fold(values[:0].unsqueeze(0))  # of no entries: for its type
        rest = weft.full((missing, *like.shape[1:]), empty, dtype=like.dtype)
        parts.append(rest if parts or not like.requires_grad else rest + values[:0].sum())
    if plan.single:
        return parts[0]
    return take(weft.cat(parts), 0, plan.order())


def along_groups(values: Tensor, plan: GroupPlan, fill: float, function: Fold) -> Any:
    """`function` along dimension 1 of each group, which keeps its size. Shapes: (entries, *) -> (entries, *)."""
    padded = padded_groups(values, plan, fill) or [values.unsqueeze(0)]
    return joined_groups([function(part) for part in padded], plan)


def joined_groups(parts: list[Tensor], plan: GroupPlan) -> Any:
    """The entries of all buckets in their own order, without what padded them."""
    flat = [part.flatten(0, 1) for part in parts]
    return take(weft.cat(flat) if len(flat) > 1 else flat[0], 0, plan.back())


def need_entries(name: str, plan: GroupPlan) -> None:
    """Errors: IndexError where a group has no entries."""
    if (plan.counts == 0).any():
        raise DimensionError(
            f"{name}(): Expected reduction dim to have non-zero size, but row "
            f"{int(np.argmin(plan.counts))} has no entries.",
            expected="at least one entry to choose from in each row",
            got=f"{int((plan.counts == 0).sum())} empty rows",
            fix="leave empty items out, or use logsumexp or sum, which are defined on none",
        )


# -- sums and what is made of them -----------------------------------------------------------------


def total(
    function: Callable[..., Tensor],
    input: NestedTensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Any:
    """sum over any dimensions."""
    dims = dimensions(input, dim)
    if len(dims) == input.ndim:
        found = weft.sum(input.packed, dtype=dtype)
        return found.reshape((1,) * input.ndim) if keepdim else found
    axes, groups = _split(input, dims)
    values = input.packed
    if dtype is not None or not (values.is_floating_point() or values.is_complex()):
        values = values.to(dtype or weft.int64)
    plan = grouping(input, dims)
    if groups:
        values = segment_sum(values, plan)
    if axes:
        values = weft.sum(values, axes)
    return shaped(values, input, dims, keepdim, plan)


def _count(input: NestedTensor, dims: tuple[int, ...], keepdim: bool, dtype: DType) -> Any:
    """The number of elements that a reduction folds into each of its results, as a tensor that broadcasts with
    them."""
    axes, groups = _split(input, dims)
    inner = math.prod(input.packed.shape[axis] for axis in axes)
    if not groups:
        return inner
    plan = grouping(input, dims)
    sizes = [size for axis, size in enumerate(input.packed.shape) if axis and axis not in axes]
    counts = plan.sizes(inner, dtype).reshape(-1, *(1,) * len(sizes))
    return shaped(counts, input, dims, keepdim, plan)


def mean(
    function: Callable[..., object],
    input: NestedTensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Any:
    """The mean over any dimensions, of the existing entries in each row."""
    dims = dimensions(input, dim)
    if dtype is not None:
        input = input.to(dtype)
    if len(dims) == input.ndim or not input.packed.is_floating_point():
        found = weft.mean(input.packed)
        return found.reshape((1,) * input.ndim) if keepdim else found
    return input.sum(dims, keepdim) / _count(input, dims, keepdim, input.dtype)


def var(
    function: Callable[..., object],
    input: NestedTensor,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: int | None = None,
) -> Any:
    """var or std over any dimensions."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    correction = (1 if unbiased else 0) if correction is None else correction
    dims = dimensions(input, dim)
    if len(dims) == input.ndim:
        return function(input.packed, correction=correction)
    away = input - input.mean(dims, True)
    count = _count(input, dims, keepdim, input.dtype) - correction
    if isinstance(count, Tensor):
        count = count.clamp(min=0)
    spread = weft.sum(away * away, dims, keepdim) / count
    return spread.sqrt() if function.__name__ == "std" else spread


def spread_and_mean(
    function: Callable[..., object],
    input: NestedTensor,
    dim: int | None = None,
    *args: object,
    keepdim: bool = False,
    **kwargs: object,
) -> Any:
    """var_mean and std_mean."""
    spread = getattr(weft, function.__name__.removesuffix("_mean"))
    return spread(input, dim, *args, keepdim=keepdim, **kwargs), input.mean(dim, keepdim)


def extremes(
    function: Callable[..., object],
    input: NestedTensor,
    *,
    dim: int | None = None,
    keepdim: bool = False,
) -> Any:
    """aminmax."""
    dims = () if dim is None else dim
    found = input.amin(dims, keepdim), input.amax(dims, keepdim)
    return weft.return_types.aminmax(found)


def triangle(function: Callable[..., object], input: Tensor, diagonal: int = 0) -> Any:
    """tril and triu of the last two dimensions of each item."""
    ones = weft.ones_like(input, dtype=weft.int64)
    away = ones.cumsum(-1) - ones.cumsum(-2)
    kept = away <= diagonal if function.__name__ == "tril" else away >= diagonal
    return weft.where(kept, input, weft.zeros_like(input))


def count_nonzero(function: Callable[..., object], input: Tensor, dim: Dims = None) -> Any:
    """The number of elements that are not 0."""
    return weft.sum(input != 0, dim)


def ignoring_nan(
    function: Callable[..., object],
    input: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Any:
    """nansum and nanmean."""
    found = weft.sum(weft.where(weft.isnan(input), 0, input), dim, keepdim, dtype=dtype)
    if function.__name__ == "nansum":
        return found
    return found / weft.sum(~weft.isnan(input), dim, keepdim)


# -- other folds -----------------------------------------------------------------------------------


def _fold(
    name: str, input: NestedTensor, dim: Any, keepdim: bool, fill: float, over: Callable[..., Any],
    empty: float | None = None,
) -> Any:  # fmt: skip
    """A fold that is one of its own results: over groups, then over axes. `over(values, axes)` is the dense one."""
    dims = dimensions(input, dim)
    axes, groups = _split(input, dims)
    if len(dims) == input.ndim:
        found = over(input.packed, tuple(range(input.packed.ndim)))
        return found.reshape((1,) * input.ndim) if keepdim else found
    plan = grouping(input, dims)
    values = input.packed
    if axes:
        values = over(values, axes)
    if groups:
        if empty is None:
            need_entries(name, plan)
        values = fold_groups(values, plan, fill, lambda padded: over(padded, (1,)), empty)
    return shaped(values, input, dims, keepdim, plan)


def extreme(
    function: Callable[..., object],
    input: NestedTensor,
    dim: int | Shape = (),
    keepdim: bool = False,
) -> Any:
    """amax and amin."""
    name = function.__name__
    fill = lowest(input.dtype) if name == "amax" else highest(input.dtype)
    return _fold(name, input, dim, keepdim, fill, lambda values, axes: function(values, axes))


def extreme_and_place(
    function: Callable[..., object],
    input: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    other: object = None,
) -> Any:
    """max and min: of all, of two tensors, or along a dimension with places."""
    name = function.__name__
    if isinstance(dim, (Tensor, NestedTensor)):
        dim, other = None, dim
    if other is not None:
        return apply(weft.maximum if name == "max" else weft.minimum, input, other)
    if dim is None:
        return function(input.packed)
    fill = lowest(input.dtype) if name == "max" else highest(input.dtype)
    found = _along_one(name, input, dim, keepdim, fill, lambda values, at: function(values, at))
    kind = getattr(weft.return_types, name)
    return kind(found)


def place(
    function: Callable[..., object], input: Any, dim: int | None = None, keepdim: bool = False
) -> Any:
    """argmax and argmin along a dimension; counted within each row."""
    name = function.__name__
    if dim is None:
        raise NotDefinedError(
            f"{name} of all elements of a ragged tensor",
            expected="a dimension: places in all items together have no common shape",
            got="dim=None",
            fix="pass dim, or use .values() for places among all entries",
        )
    fill = lowest(input.dtype) if name == "argmax" else highest(input.dtype)
    return _along_one(name, input, dim, keepdim, fill, lambda values, at: (function(values, at),))[
        0
    ]


def _along_one(
    name: str, input: NestedTensor, dim: int, keepdim: bool, fill: float, over: Callable[..., Any]
) -> list[Any]:
    """The results (one or several) of a fold along one dimension."""
    dims = (input.dimension(dim),)
    axes, groups = _split(input, dims)
    plan = grouping(input, dims)
    if groups:
        need_entries(name, plan)
        parts = [over(padded, 1) for padded in padded_groups(input.packed, plan, fill)]
        order = plan.order()
        if not parts:
            raise ShapeError(
                f"{name} of no items", expected="at least one item", got="none", fix="check len()"
            )
        found = [take(weft.cat(list(part)), 0, order) for part in zip(*parts, strict=True)]
    else:
        found = list(over(input.packed, axes[0]))
    return [shaped(part, input, dims, keepdim, plan) for part in found]


def product(
    function: Callable[..., object],
    input: NestedTensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Any:
    """prod of all elements or along one dimension."""
    if dim is None:
        return function(input.packed, dtype=dtype)
    values = input.packed
    if dtype is not None or not (values.is_floating_point() or values.is_complex()):
        input = input.like(values.to(dtype or weft.int64))
    return _fold("prod", input, dim, keepdim, 1, lambda x, axes: function(x, axes[0]), 1)


def logic(
    function: Callable[..., Tensor],
    input: NestedTensor,
    dim: int | None = None,
    keepdim: bool = False,
) -> Any:
    """any and all."""
    end = function.__name__ == "all"
    over = lambda values, axes: function(values, axes)  # noqa: E731
    return _fold(function.__name__, input.to(weft.bool), dim, keepdim, end, over, end)


def logsumexp(
    function: Callable[..., object], input: NestedTensor, dim: int | Shape, keepdim: bool = False
) -> Any:
    """log of the sum of exponentials; -inf for rows without entries."""
    over = lambda values, axes: function(values, axes)  # noqa: E731
    return _fold("logsumexp", input, dim, keepdim, -math.inf, over, -math.inf)


def norm(
    function: Callable[..., object],
    input: NestedTensor,
    p: Any = None,
    dim: int | Shape | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    ord: object = None,  # noqa: A002
    **rest: object,  # noqa: A002
) -> Any:
    """The p-norm over any dimensions."""
    p = ord if ord is not None else 2 if p in (None, "fro") else p
    if dtype is not None:
        input = input.to(dtype)
    fill = 0 if p >= 0 else math.inf
    over = lambda values, axes: vector_norm(values, p, axes)  # noqa: E731
    return _fold("norm", input, dim, keepdim, fill, over, fill)


# -- along a dimension -----------------------------------------------------------------------------


def plan_along(input: NestedTensor, dim: int) -> GroupPlan:
    """The entries grouped into rows along the batch or a ragged dimension."""
    return input.rows.plan(tuple(level for level, own in enumerate((0, *input.dims)) if own != dim))


def along(
    input: NestedTensor, dim: int, fill: float, function: Callable[[object, int], object]
) -> Any:
    """A function that keeps sizes, along one dimension."""
    dim = input.dimension(dim)
    if dim in input.uniform:
        return input.like(function(input.packed, input.axis(dim)))
    if dim == 0 and len(input.dims) > 1:
        grouping(input, (0,))  # explains what is not defined
    plan = plan_along(input, dim)
    return input.like(along_groups(input.packed, plan, fill, lambda padded: function(padded, 1)))


def normalized(
    function: Callable[..., object],
    input: NestedTensor,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: DType | None = None,
) -> Any:
    """softmax, log_softmax and softmin along one dimension, also a ragged one."""
    if dim is None:
        raise ArgumentError(
            f"{function.__name__} of a ragged tensor needs a dimension",
            expected="dim",
            got="None",
            fix="pass dim=-1, or dim=1 for the ragged dimension",
        )
    if dtype is not None:
        input = input.to(dtype)
    fill = math.inf if function.__name__ == "softmin" else -math.inf
    if not input.packed.is_floating_point():
        fill = 0  # the function says what it takes
    return along(input, dim, fill, lambda values, axis: function(values, axis))


def running(
    function: Callable[..., object], input: NestedTensor, dim: int, *, dtype: DType | None = None
) -> Any:
    """cumsum and cumprod along one dimension."""
    fill = 0 if function.__name__ == "cumsum" else 1
    if dtype is not None:
        input = input.to(dtype)
    return along(input, dim, fill, lambda values, axis: function(values, axis))


def sort(
    function: Callable[..., object],
    input: NestedTensor,
    dim: int = -1,
    descending: bool = False,
    stable: bool = False,
) -> Any:
    """sort and argsort along one dimension; of a ragged one, places count within each row."""
    place = input.dimension(dim)
    if place in input.uniform:
        found = weft.sort(input.packed, input.axis(place), descending, stable)
        parts = list(found)
    else:
        # Padding comes last: behind nan in rising order, behind equal elements as the order is stable.
        rising = math.nan if input.dtype.is_floating_point else highest(input.dtype)
        fill = lowest(input.dtype) if descending else rising
        plan = plan_along(input, place)
        padded = padded_groups(input.packed, plan, fill) or [input.packed.unsqueeze(0)]
        each = [weft.sort(part, 1, descending, stable=True) for part in padded]
        found = each[0]
        parts = [joined_groups([part[one] for part in each], plan) for one in range(2)]
    results = [input.like(part) for part in parts]
    return type(found)(results) if function.__name__ == "sort" else results[1]


def equal(
    function: Callable[..., object], input: Tensor, other: object, *args: object, **kwargs: object
) -> bool:
    """equal and allclose: of structure too."""
    if not isinstance(input, NestedTensor) or not isinstance(other, NestedTensor):
        return False
    same = input.rows is other.rows and input.dims == other.dims
    return same and function(input.packed, other.packed, *args, **kwargs)


def normalize(
    function: Callable[..., object], input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12
) -> Any:
    """Each row along `dim` divided by its norm."""
    return input / weft.norm(input, p, dim, True).clamp(min=eps)


RULES = {
    "sum": total, "mean": mean, "var": var, "std": var, "count_nonzero": count_nonzero,
    "nansum": ignoring_nan, "nanmean": ignoring_nan, "amax": extreme, "amin": extreme,
    "max": extreme_and_place, "min": extreme_and_place, "argmax": place, "argmin": place,
    "prod": product, "any": logic, "all": logic, "logsumexp": logsumexp, "norm": norm,
    "vector_norm": norm, "linalg_norm": norm, "softmax": normalized, "log_softmax": normalized,
    "softmin": normalized, "cumsum": running, "cumprod": running, "normalize": normalize,
    "sort": sort, "var_mean": spread_and_mean, "std_mean": spread_and_mean,
    "aminmax": extremes, "tril": triangle, "triu": triangle, "argsort": sort, "equal": equal, "allclose": equal,
}  # fmt: skip
