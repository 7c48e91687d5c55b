# ruff: noqa: A001, A002 - PyTorch's names
"""Pooling: maxima and means over windows of a fixed size.

Windows are views; a maximum that needs a gradient or its indices finds the first largest place of each window and
gathers there, any other is one reduction. Few elements in a window are compared one after the other, for all windows
at once.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from weft.errors import ArgumentError, DTypeError, ShapeError
from weft.functional import host
from weft.functional.arguments import (
    TYPE_NAMES,
    Shape,
    describe,
    need_tensor,
    untracked,
)
from weft.functional.formats import in_order, like_channels
from weft.functional.making import write_out
from weft.functional.reductions import first_extreme
from weft.graph import dtype as dtypes
from weft.graph.recording import cast, record_gradient
from weft.graph.tape import tape
from weft.nn.functional_conv import numbers
from weft.ops.convolution import windows
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full, gather, iota, pad, reduce, reshape, slice_axis, where
from weft.ops.row import TABLE

FEW = 16  # elements of a window that are walked in operations of their own


class _Plan:
    """The geometry of one pooling call."""

    def __init__(
        self,
        name: str,
        input: Any,
        kernel: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        spatial: int,
    ) -> None:
        need_tensor(name, input)
        if len(input._shape) not in (spatial + 1, spatial + 2):
            raise ShapeError(
                f"{name}(): Expected {spatial + 1}D or {spatial + 2}D input: non-empty {spatial + 1}D or "
                f"{spatial + 2}D (batch mode) tensor expected for input, but got input of size: "
                f"{list(input._shape)}",
                expected=f"(N, C, *) with {spatial} sizes",
                got=describe("input", input),
                fix="add dimensions with unsqueeze",
            )
        if name.startswith("max") and 0 in input._shape[-spatial - 1 :]:
            raise ShapeError(
                f"{name}(): Expected input's non-batch dimensions to have positive length, but input has sizes "
                f"{list(input._shape)}",
                expected="channels and sizes of at least 1",
                got=describe("input", input),
                fix="check how the input became empty",
            )
        self.kernel = numbers(kernel, spatial, "kernel_size")
        self.stride = (
            self.kernel
            if stride is None or stride in ([], ())
            else numbers(stride, spatial, "stride")
        )
        self.padding = numbers(padding, spatial, "padding")
        self.dilation = numbers(dilation, spatial, "dilation")
        self.sizes = input._shape[-spatial:]
        self.spatial = spatial
        if [1 for width, size in zip(self.padding, self.kernel, strict=True) if width > size // 2]:
            raise ShapeError(
                f"pad should be at most half of effective kernel size, but got pad={max(self.padding)}, "
                f"kernel_size={max(self.kernel)} and dilation={max(self.dilation)}",
                expected="padding <= kernel_size / 2",
                got=f"padding={self.padding}",
                fix="pad the input instead",
            )
        self.places = tuple([self._outputs(axis, ceil_mode) for axis in range(spatial)])
        if min(self.places) < 1:
            raise ShapeError(
                f"Given input size: {list(input._shape)}. Calculated output size: {list(self.places)}. "
                "Output size is too small",
                expected="an input at least as large as the window",
                got=describe("input", input),
                fix="use a smaller window, or pad",
            )

    def _outputs(self, axis: int, ceil_mode: bool) -> int:
        size, width, step = self.sizes[axis], self.padding[axis], self.stride[axis]
        room = size + 2 * width - self.dilation[axis] * (self.kernel[axis] - 1) - 1
        count = (-(-room // step) if ceil_mode else room // step) + 1
        if ceil_mode and (count - 1) * step >= size + width:
            count -= 1
        return count

    def after(self, axis: int) -> int:
        """The padding behind, so that every window is whole."""
        span = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        need = (
            (self.places[axis] - 1) * self.stride[axis]
            + span
            - self.sizes[axis]
            - self.padding[axis]
        )
        return max(need, 0)

    def views(self, x: Any, fill: Any) -> Any:
        """(N, C, *places, *kernel) windows of the padded input."""
        edges = [(width, self.after(axis)) for axis, width in enumerate(self.padding)]
        if max(map(max, edges)) > 0:
            x = pad(x, ((0, 0), (0, 0), *edges), fill)
        found = windows(x, self.kernel, self.stride, self.dilation)
        return _cut(found, self.places)

    def tiles(self) -> bool:
        """Whether the windows lie side by side and cover the input exactly."""
        rest = [size % step for size, step in zip(self.sizes, self.kernel, strict=True)]
        return (
            self.stride == self.kernel
            and not any((*self.padding, *rest))
            and max(self.dilation) == 1
        )

    def tiled(self, shape: Shape) -> Shape:
        """(N, C, *in) split into (N, C, places, kernel, places, kernel, ...)."""
        split = [size for pair in zip(self.places, self.kernel, strict=True) for size in pair]
        return (*shape[:2], *split)

    def tile_axes(self) -> Shape:
        """The window's dimensions in the tiled shape."""
        return tuple(range(3, 3 + 2 * self.spatial, 2))

    @property
    def axes(self) -> Shape:
        """The window's dimensions in `views`."""
        return tuple(range(2 + self.spatial, 2 + 2 * self.spatial))


def _cut(views: Any, places: Shape) -> Any:
    for axis, count in enumerate(places):
        if views._shape[2 + axis] != count:
            views = slice_axis(views, 2 + axis, 0, count)
    return views


def lowest_of(dtype: Any) -> Any:
    if dtype.category not in (1, 2):
        raise DTypeError(
            f"\"max_pool\" not implemented for '{TYPE_NAMES[dtype.name]}'",
            expected="a real or integer tensor",
            got=dtype.name,
            fix="convert with .float() first",
        )
    return -float("inf") if dtype.category == 2 else int(np.iinfo(dtype.numpy).min)


def batched(input: Any, spatial: int) -> Any:
    return input if len(input._shape) == spatial + 2 else reshape(input, (1, *input._shape))


def unbatched(result: Any, input: Any, spatial: int) -> Any:
    """A result without the dimension that the input did not have; in the input's memory format."""
    if len(input._shape) == spatial + 2:
        return like_channels(result, input)
    return reshape(result, result._shape[1:])


def windowed_max(
    name: str,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
    spatial: int,
) -> Any:
    plan = _Plan(name, input, kernel_size, stride, padding, dilation, ceil_mode, spatial)
    need_order(name, input)
    x = batched(input, spatial)
    if plan.tiles():
        values, places = _largest_of_tiles(reshape(x, plan.tiled(x._shape)), plan.tile_axes())
        values = unbatched(values, input, spatial)
        if not return_indices:
            return values
        return values, unbatched(
            _source_index(plan, reshape(places, (*x._shape[:2], *plan.places))), input, spatial
        )
    views = plan.views(x, lowest_of(x._dtype))
    if not return_indices and not (input.requires_grad and tape().mode.grad):
        return unbatched(_largest(views, plan.axes), input, spatial)
    place = _place_of_largest(views, plan.axes)
    linear = _source_index(plan, place)
    lines = reshape(x, (*x._shape[:2], elements_of(plan.sizes)))
    values = gather(lines, 2, reshape(linear, (*linear._shape[:2], elements_of(plan.places))))
    values = unbatched(reshape(values, linear._shape), input, spatial)
    return (values, unbatched(linear, input, spatial)) if return_indices else values


def _largest_of_tiles(tiles: Any, axes: Shape) -> tuple[Any, Any]:
    """The maxima over axes, with one gradient record, and where they stand first (dimensions kept)."""
    if _elements(tiles, axes) > FEW:
        return first_extreme("max", tiles, axes, False)
    with untracked():
        values, places = _walk(tiles, axes)
        shape = [size for axis, size in enumerate(tiles._shape) if axis not in axes]
        values = reshape(values, tuple(shape))
    return record_gradient(TABLE["max"], (tiles, places), (axes, False), values), places


def _largest(views: Any, axes: Shape) -> Any:
    """The maxima over the last axes, untracked."""
    if _elements(views, axes) > FEW:
        return reduce("amax", views, axes)
    return reshape(_walk(views, axes)[0], views._shape[: axes[0]])


def _place_of_largest(views: Any, axes: Shape) -> Any:
    """The first place of the maxima over the last axes, untracked."""
    if _elements(views, axes) > FEW:
        return reduce("argmax", views.detach(), axes, dtype=dtypes.int64)
    with untracked():
        return reshape(_walk(views, axes)[1], views._shape[: axes[0]])


def _elements(views: Any, axes: Shape) -> int:
    return elements_of(tuple([views._shape[axis] for axis in axes]))


def _walk(views: Any, axes: Shape) -> tuple[Any, Any]:
    """The largest element of each window and its place, the first of equal ones and of nans; dimensions kept."""
    best, *rest = _parts(views, axes)
    place = full(best._shape, 0, dtypes.int32)
    for number, part in enumerate(rest, 1):
        keep = call("logical_or", call("le", part, best), call("ne", best, best))
        best, place = where(keep, best, part), where(keep, place, number)
    return best, cast(place, dtypes.int64)


def _parts(views: Any, axes: Shape) -> list[Any]:
    """The first element of all windows, the second of all, and so on; dimensions kept."""
    found = []
    for places in product(*[range(views._shape[axis]) for axis in axes]):
        part = views
        for axis, start in zip(axes, places, strict=True):
            part = slice_axis(part, axis, start, 1)
        found.append(part)
    return found


def _totals(views: Any, axes: Shape) -> Any:
    """The sums over axes. Few numbers are added one after the other; halves are added wider, by a reduction."""
    if _elements(views, axes) > FEW or views._dtype.name not in ("float32", "float64"):
        return reduce("sum", views, axes)
    with untracked():
        first, *rest = _parts(views, axes)
        total = sum(rest, first)
        shape = [size for axis, size in enumerate(views._shape) if axis not in axes]
        total = reshape(total, tuple(shape))
    return record_gradient(TABLE["sum"], (views,), (axes, False), total)


def elements_of(shape: Shape) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _source_index(plan: _Plan, place: Any) -> Any:
    """The row-major index into the input's spatial sizes of each window's place."""
    linear: Any = None
    rest = elements_of(plan.kernel)
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


def need_order(name: str, input: Any) -> None:
    """Errors: DTypeError for complex numbers, none of which is the largest."""
    if input._dtype.is_complex:
        raise DTypeError(
            f"\"{name}\" not implemented for '{TYPE_NAMES[input._dtype.name]}'",
            expected="real numbers, which have an order",
            got=describe("input", input),
            fix="pool input.abs(), .real or .imag",
        )


def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, L); the gradient goes to the first."""
    return windowed_max(
        "max_pool1d", input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 1
    )


def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, H, W); the gradient goes to the first."""
    return windowed_max(
        "max_pool2d", input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 2
    )


def max_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, D, H, W); the gradient goes to the first."""
    return windowed_max(
        "max_pool3d", input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 3
    )


# -- means ---------------------------------------------------------------------------------------------------------


def _divisors(plan: _Plan, include_pad: bool, override: int | None) -> Any:
    """The number of elements in each window: one number, or an array of the places' shape."""
    if override is not None:
        return override
    counts: Any = np.ones((1,) * plan.spatial)
    for axis in range(plan.spatial):
        start = np.arange(plan.places[axis]) * plan.stride[axis] - plan.padding[axis]
        stop = np.minimum(start + plan.kernel[axis], plan.sizes[axis] + plan.padding[axis])
        if not include_pad:
            start, stop = np.maximum(start, 0), np.minimum(stop, plan.sizes[axis])
        shape = [1] * plan.spatial
        shape[axis] = -1
        counts = counts * (stop - start).reshape(shape)
    return float(counts.flat[0]) if (counts == counts.flat[0]).all() else counts


def _avg_pool(
    name: str,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    include_pad: bool,
    override: int | None,
    spatial: int,
) -> Any:
    plan = _Plan(name, input, kernel_size, stride, padding, 1, ceil_mode, spatial)
    if override == 0:
        raise ArgumentError(
            f"{name}(): divisor must be not zero",
            expected="divisor_override other than 0",
            got="0",
            fix="leave divisor_override out",
        )
    x = batched(input, spatial)
    if plan.tiles():
        total = _totals(reshape(x, plan.tiled(x._shape)), plan.tile_axes())
    else:
        total = _totals(plan.views(x, 0), plan.axes)
    divisor = _divisors(plan, include_pad, override)
    if isinstance(divisor, np.ndarray):
        divisor = host.from_numpy(divisor, input._dtype)
    mean = total / divisor
    if input._dtype.category < 2:  # PyTorch's means of integers are integers
        mean = cast(mean, input._dtype)
    result = unbatched(mean, input, spatial)
    return in_order(result) if spatial == 3 else result  # as PyTorch's kernel for volumes


def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of (N, C, L)."""
    return _avg_pool(
        "avg_pool1d", input, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1
    )


def avg_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Any = None,
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


def avg_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Any = None,
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
