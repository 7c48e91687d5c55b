# ruff: noqa: A001, A002 - PyTorch's names
"""Adaptive pooling: maxima and means over windows that cut each dimension into a wanted number of nearly equal parts.

Parts of one size are the windows of `functional_pool`; others are averaged by a matrix product, or taken by host-made
indices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.engine.api.call_cache import composed_of_primitives
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.functional.linalg.products import product
from weft.functional.reductions.sums_and_extrema import first_extreme, need_real
from weft.functional.support import host
from weft.functional.support.memory_formats import in_order, like_channels
from weft.nn.functional.pooling.arguments import check_adaptive
from weft.nn.functional.pooling.recorded_parts import Stretches, averaging, recorded_parts
from weft.nn.functional.pooling.windowed import (
    batched,
    unbatched,
    windowed_max,
)
from weft.ops.any_size import sizes_vary
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import permute, reduce, reshape, take
from weft.tensor.arguments import Shape, need_tensor


def _averaging(size: int, count: int, dtype: DType) -> Any:
    """The (size, count) matrix whose column i averages the i-th of `count` nearly equal stretches."""
    if sizes_vary():
        return averaging(size, count, dtype)
    places = np.arange(count)
    start, stop = places * size // count, -(-(places + 1) * size // count)
    rows = np.arange(size)[:, None]
    inside = (rows >= start) & (rows < stop)
    return host.from_numpy(inside / (stop - start), dtype)


def adaptive_avg_pool(
    input: Tensor, output_size: int | tuple[int | None, ...] | Sequence[int], spatial: int
) -> Any:
    """Means over windows that cut each spatial dimension into the wanted number of nearly equal parts."""
    name = f"adaptive_avg_pool{spatial}d"
    need_tensor(name, input)
    wanted = check_adaptive(name, input, output_size, spatial)
    lead = len(input._shape) - spatial
    sizes, given = input._shape[lead:], input
    if _are_even(sizes, wanted):
        shape = list(input._shape[:lead])
        for have, want in zip(sizes, wanted, strict=True):
            shape += [want, have // want]
        total = reduce(
            "sum", reshape(input, tuple(shape)), tuple(range(lead + 1, lead + 2 * spatial, 2))
        )
        mean = total / (math.prod(sizes) // math.prod(wanted))
        return mean if spatial == 3 else like_channels(mean, given)
    for axis, (have, want) in enumerate(zip(sizes, wanted, strict=True), lead):
        order = [a for a in range(len(input._shape)) if a != axis] + [axis]
        moved = product(permute(input, tuple(order)), _averaging(have, want, input._dtype))
        back = [order.index(a) for a in range(len(order))]
        input = permute(moved, tuple(back))
    return input if spatial == 3 else like_channels(input, given)


def _are_even(sizes: Shape, wanted: Shape) -> bool:
    """True if all parts of a dimension have one size, also where sizes vary."""
    if sizes_vary():
        return set(wanted) == {1}
    return not [1 for have, want in zip(sizes, wanted, strict=True) if want == 0 or have % want]


@composed_of_primitives
def adaptive_avg_pool1d(input: Tensor, output_size: int | Sequence[int]) -> Any:
    """Means over `output_size` nearly equal parts of (N, C, L)."""
    return adaptive_avg_pool(input, output_size, 1)


@composed_of_primitives
def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int]) -> Any:
    """Means over nearly equal parts of (N, C, H, W)."""
    return adaptive_avg_pool(input, output_size, 2)


@composed_of_primitives
def adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int]) -> Any:
    """Means over nearly equal parts of (N, C, D, H, W)."""
    return adaptive_avg_pool(input, output_size, 3)


def _parts(size: int, count: int) -> Stretches:
    """The windows of one adaptive dimension."""
    places = np.arange(count)
    start = places * size // max(count, 1)
    last = -(-(places + 1) * size // max(count, 1)) - 1
    width = int((last - start).max(initial=0)) + 1
    found = np.minimum(start[:, None] + np.arange(width), last[:, None])
    ends = host.from_numpy(start), host.from_numpy(last)
    return Stretches(*ends, host.from_numpy(found), width)


def _adaptive_max_pool(
    name: str,
    input: Tensor,
    output_size: int | tuple[int | None, ...] | Sequence[int],
    return_indices: bool,
    spatial: int,
) -> Any:
    need_tensor(name, input)
    wanted = check_adaptive(name, input, output_size, spatial)
    need_real(name, input)
    sizes = input._shape[-spatial:]
    if _are_even(sizes, wanted):
        kernel = tuple([have // want for have, want in zip(sizes, wanted, strict=True)])
        return windowed_max(name, input, kernel, kernel, 0, 1, False, return_indices, spatial)
    x = batched(input, spatial)
    made = recorded_parts if sizes_vary() else _parts
    parts = [made(have, want) for have, want in zip(sizes, wanted, strict=True)]
    for number, part in enumerate(parts):
        x = take(x, 2 + 2 * number, part.places)  # -> (N, C, places, width, ...)
    axes = tuple(range(3, 3 + 2 * spatial, 2))
    values, place = first_extreme("max", x, axes, False)
    values = unbatched(values, input, spatial)
    if not return_indices:
        return values
    place = reshape(place, (*x._shape[:2], *wanted))
    return values, unbatched(_adaptive_source(parts, place, sizes), input, spatial)


def _adaptive_source(parts: list[Stretches], place: Tensor, sizes: Shape) -> Any:
    """The row-major index into the input's spatial sizes of each window's place."""
    linear: Any = None
    rest = math.prod(tuple([part.width for part in parts]))
    for number, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        rest //= part.width
        within = call("remainder", call("floor_divide", place, rest), part.width)
        shape = (*part.start._shape, *(1,) * (len(parts) - number - 1))
        start, last = (reshape(value, shape) for value in (part.start, part.last))
        where_in = call("minimum", within + start, last)
        linear = where_in if linear is None else linear * size + where_in
    return linear


@composed_of_primitives
def adaptive_max_pool1d(
    input: Tensor, output_size: int | Sequence[int], return_indices: bool = False
) -> Any:
    """The largest element of nearly equal parts of (N, C, L)."""
    return _adaptive_max_pool("adaptive_max_pool1d", input, output_size, return_indices, 1)


@composed_of_primitives
def adaptive_max_pool2d(
    input: Tensor, output_size: int | Sequence[int], return_indices: bool = False
) -> Any:
    """The largest element of nearly equal parts of (N, C, H, W)."""
    return _adaptive_max_pool("adaptive_max_pool2d", input, output_size, return_indices, 2)


@composed_of_primitives
def adaptive_max_pool3d(
    input: Tensor, output_size: int | Sequence[int], return_indices: bool = False
) -> Any:
    """The largest element of nearly equal parts of (N, C, D, H, W)."""
    found = _adaptive_max_pool("adaptive_max_pool3d", input, output_size, return_indices, 3)
    return tuple(map(in_order, found)) if return_indices else in_order(found)


__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
]
