# ruff: noqa: A001, A002 - PyTorch's names
"""Pooling: maxima and means over windows of a fixed size.

Windows are views; a maximum that needs a gradient or its indices finds the first largest place of each window and
gathers there, any other is one reduction. Few elements in a window are compared one after the other, for all windows
at once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft._typing import Dims
from weft.engine.api.call_cache import composed_of_primitives
from weft.engine.dispatch.type_names import no_kernel_for
from weft.engine.frontend.recorder import cast, record_gradient
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.engine.ir.tape import tape
from weft.errors import ArgumentError, UnsupportedDTypeError
from weft.functional.reductions.sums_and_extrema import first_extreme, need_real
from weft.functional.support import host
from weft.functional.support.memory_formats import in_order, like_channels
from weft.functional.support.variants import write_out
from weft.nn.functional.pooling.windows import Windows, windows_of
from weft.ops.any_size import as_one, is_for_any_size
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full, gather, iota, reduce, reshape, slice_axis, where
from weft.ops.registry import OPS
from weft.tensor.arguments import (
    Shape,
    untracked,
)

FEW = 16  # elements of a window that are reduced one operation per element
LITTLE = (
    4096  # elements of all windows up to which one operation finds positions sooner than several
)


def lowest_of(dtype: DType) -> Any:
    if dtype.category not in (1, 2):
        raise UnsupportedDTypeError(
            no_kernel_for("max_pool", dtype.name),
            expected="a real or integer tensor",
            got=dtype.name,
            fix="convert with .float() first",
        )
    return -float("inf") if dtype.category == 2 else int(np.iinfo(dtype.numpy).min)


def batched(input: Tensor, spatial: int) -> Any:
    return input if len(input._shape) == spatial + 2 else reshape(input, (1, *input._shape))


def unbatched(result: Tensor, input: Tensor, spatial: int) -> Any:
    """A result without the dimension that the input did not have; in the input's memory format."""
    if len(input._shape) == spatial + 2:
        return like_channels(result, input)
    return reshape(result, result._shape[1:])


def windowed_max(
    name: str,
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: Dims,
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    ceil_mode: bool,
    return_indices: bool,
    spatial: int,
) -> Any:
    plan = windows_of(name, input, kernel_size, stride, padding, dilation, ceil_mode, spatial)
    need_real(name, input)
    x = batched(input, spatial)
    one = _as_one(plan, x, ceil_mode)
    if one is not None:
        values, places = (unbatched(part, input, spatial) for part in one)
        return (values, places) if return_indices else values
    graded = input.requires_grad and tape().mode.grad and not is_for_any_size()
    alone = not return_indices and not graded
    if plan.tiles:
        if alone:
            tiles = reshape(x, plan.tiled(x._shape))
            return unbatched(_largest(tiles, plan.tile_axes()), input, spatial)
        values, places = _largest_of_tiles(reshape(x, plan.tiled(x._shape)), plan.tile_axes())
        values = unbatched(values, input, spatial)
        if not return_indices:
            return values
        return values, unbatched(
            _source_index(plan, reshape(places, (*x._shape[:2], *plan.places))), input, spatial
        )
    views = plan.views(x, lowest_of(x._dtype))
    if alone:
        return unbatched(_largest(views, plan.axes), input, spatial)
    place = _place_of_largest(views, plan.axes)
    linear = _source_index(plan, place)
    lines = reshape(x, (*x._shape[:2], math.prod(plan.sizes)))
    values = gather(lines, 2, reshape(linear, (*linear._shape[:2], math.prod(plan.places))))
    values = unbatched(reshape(values, linear._shape), input, spatial)
    return (values, unbatched(linear, input, spatial)) if return_indices else values


def _as_one(plan: Windows, x: Tensor, ceil_mode: bool) -> Any:
    """The maxima and their places where an export has one operation for them; None elsewhere. A window that is the
    whole input is not one of a size."""
    if not is_for_any_size() or x._dtype.category != 2 or plan.kernel == plan.sizes:
        return None
    shape = (*x._shape[:2], *plan.places)
    params = (plan.kernel, plan.stride, plan.padding, plan.dilation, bool(ceil_mode))
    values = as_one("max_pool", (x,), params, shape, x._dtype)
    if values is None:
        return None
    return values, as_one("max_pool_places", (x,), params, shape, dtypes.int64)


def _largest_of_tiles(tiles: Tensor, axes: Shape) -> tuple[Any, Any]:
    """The maxima over axes, with one gradient record, and where they stand first (dimensions kept)."""
    if _elements(tiles, axes) > FEW:
        return first_extreme("max", tiles, axes, False)
    with untracked():
        if _is_little(tiles):
            values = _largest(tiles, axes)
            places = reduce("argmax", tiles, axes, True, dtypes.int64)
        else:
            values, places = _walk(tiles, axes)
            values = reshape(values, _without(tiles._shape, axes))
    return record_gradient(OPS["max"], (tiles, places), (axes, False), values), places


def _largest(views: Tensor, axes: Shape) -> Any:
    """The maxima over axes, the first of equal ones, untracked."""
    if _elements(views, axes) > FEW:
        return reduce("amax", views, axes)
    with untracked():
        best, *rest = _parts(views, axes)
        for part in rest:
            best = call("maximum", best, part)
        return reshape(best, _without(views._shape, axes))


def _place_of_largest(views: Tensor, axes: Shape) -> Any:
    """The first place of the maxima over the last axes, untracked."""
    if _elements(views, axes) > FEW or _is_little(views):
        return reduce("argmax", views.detach(), axes, dtype=dtypes.int64)
    with untracked():
        return reshape(_walk(views, axes)[1], views._shape[: axes[0]])


def _is_little(views: Tensor) -> bool:
    """True if one operation costs less than several that are quicker per element, or is to hold for any size."""
    return is_for_any_size() or math.prod(views._shape) <= LITTLE


def _elements(views: Tensor, axes: Shape) -> int:
    return math.prod(tuple([views._shape[axis] for axis in axes]))


def _walk(views: Tensor, axes: Shape) -> tuple[Any, Any]:
    """The largest element of each window and its place, the first of equal ones and of nans; dimensions kept."""
    best, *rest = _parts(views, axes)
    place = full(best._shape, 0, dtypes.int32)
    for number, part in enumerate(rest, 1):
        keep = call("logical_or", call("le", part, best), call("ne", best, best))
        best, place = where(keep, best, part), where(keep, place, number)
    return best, cast(place, dtypes.int64)


def _parts(views: Tensor, axes: Shape) -> list[Any]:
    """The first element of all windows, the second of all, and so on; dimensions kept."""
    found = [views]
    for axis in axes:
        places = range(views._shape[axis])
        found = [slice_axis(part, axis, start, 1) for part in found for start in places]
    return found


def _without(shape: Shape, axes: Shape) -> Shape:
    return tuple([size for axis, size in enumerate(shape) if axis not in axes])


def _totals(views: Tensor, axes: Shape) -> Any:
    """The sums over axes. Few numbers are added one after the other; halves are added wider, by a reduction."""
    if _elements(views, axes) > FEW or views._dtype.name not in ("float32", "float64"):
        return reduce("sum", views, axes)
    with untracked():
        first, *rest = _parts(views, axes)
        total = sum(rest, first)
        total = reshape(total, _without(views._shape, axes))
    return record_gradient(OPS["sum"], (views,), (axes, False), total)


def _source_index(plan: Windows, place: Tensor) -> Any:
    """The row-major index into the input's spatial sizes of each window's place."""
    linear: Any = None
    rest = math.prod(plan.kernel)
    for axis in range(plan.spatial):
        rest //= plan.kernel[axis]
        within = call("remainder", call("floor_divide", place, rest), plan.kernel[axis])
        start = reshape(
            iota((plan.places[axis],)), (plan.places[axis],) + (1,) * (plan.spatial - axis - 1)
        )
        where_in = start * plan.stride[axis] + within * plan.dilation[axis] - plan.padding[axis]
        where_in = call(
            "clamp_min", where_in, 0
        )  # a window of -inf alone must not point into the padding
        linear = where_in if linear is None else linear * plan.sizes[axis] + where_in
    return linear


@composed_of_primitives
def max_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, L); the gradient goes to the first."""
    return windowed_max(
        "max_pool1d", input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 1
    )


@composed_of_primitives
def max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, H, W); the gradient goes to the first."""
    return windowed_max(
        "max_pool2d", input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 2
    )


@composed_of_primitives
def max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, D, H, W); the gradient goes to the first."""
    return windowed_max(
        "max_pool3d", input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 3
    )


# -- means ---------------------------------------------------------------------------------------------------------


@functools.lru_cache(16)  # an entry may be as large as an image
def _counts(
    kernel: Shape, stride: Shape, padding: Shape, sizes: Shape, places: Shape, include_pad: bool
) -> Any:
    """The number of elements in each window: one number, or an array of the places' shape."""
    counts: Any = np.ones((1,) * len(sizes))
    for axis, size in enumerate(sizes):
        start = np.arange(places[axis]) * stride[axis] - padding[axis]
        stop = np.minimum(start + kernel[axis], size + padding[axis])
        if not include_pad:
            start, stop = np.maximum(start, 0), np.minimum(stop, size)
        shape = [1] * len(sizes)
        shape[axis] = -1
        counts = counts * (stop - start).reshape(shape)
    return float(counts.flat[0]) if (counts == counts.flat[0]).all() else counts


def _avg_pool(
    name: str,
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: Dims,
    padding: int | Sequence[int],
    ceil_mode: bool,
    include_pad: bool,
    override: int | None,
    spatial: int,
) -> Any:
    plan = windows_of(name, input, kernel_size, stride, padding, 1, ceil_mode, spatial)
    if override == 0:
        raise ArgumentError(
            f"{name}(): divisor must be not zero",
            expected="divisor_override other than 0",
            got="0",
            fix="leave divisor_override out",
        )
    x = batched(input, spatial)
    if plan.tiles:
        total = _totals(reshape(x, plan.tiled(x._shape)), plan.tile_axes())
    else:
        total = _totals(plan.views(x, 0), plan.axes)
    divisor = override
    if divisor is None:
        divisor = _counts(*plan.geometry, include_pad)
    if isinstance(divisor, np.ndarray):
        divisor = host.from_numpy(divisor, input._dtype)
    mean = total / divisor
    if input._dtype.category < 2:  # PyTorch's means of integers are integers
        mean = cast(mean, input._dtype)
    result = unbatched(mean, input, spatial)
    return in_order(result) if spatial == 3 else result  # as PyTorch's kernel for volumes


@composed_of_primitives
def avg_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of (N, C, L)."""
    return _avg_pool(
        "avg_pool1d", input, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1
    )


@composed_of_primitives
def avg_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: Dims = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """The mean of each window of (N, C, H, W)."""
    result = _avg_pool(
        "avg_pool2d",
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
        2,
    )
    return result if out is None else write_out(out, result)


@composed_of_primitives
def avg_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: Dims = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """The mean of each window of (N, C, D, H, W)."""
    result = _avg_pool(
        "avg_pool3d",
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
        3,
    )
    return result if out is None else write_out(out, result)


__all__ = [
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]
