# ruff: noqa: A001, A002 - PyTorch's names
"""Sampling at places given by a grid, and the grids of affine maps.

An image or a volume and normalised places come in (-1 and 1 are its ends); its values there go out. Everything is
gathers at integer neighbours and a weighted sum, so that the gradients of both operands follow.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.engine.api.call_cache import ComposedPart
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.resolve import rename_record
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ShapeError
from weft.functional.linalg.products import product
from weft.functional.reductions.sums_and_extrema import sum as sum_of
from weft.functional.support import host
from weft.ops.primitives import concat, expand, gather, reshape, transpose, where
from weft.ops.primitives import elementwise as call
from weft.tensor.arguments import describe, need_tensor
from weft.tensor.arguments import sizes as whole_sizes

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
_CUBIC = -0.75  # the free parameter of Keys' cubic kernel


def _chosen(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        listed = ", ".join(repr(one) for one in allowed[:-1]) + f" or {allowed[-1]!r}"
        raise ArgumentError(
            f"nn.functional.grid_sample(): expected {name} to be {listed}, but got: '{value}'",
            expected=listed,
            got=repr(value),
            fix="choose one of these",
        )


def _check(input: Tensor, grid: Tensor, mode: str) -> None:
    need_tensor("grid_sample", input)
    need_tensor("grid_sample", grid, "grid", 2)
    rank = len(input._shape)
    if rank not in (4, 5) or len(grid._shape) != rank:
        text = (
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got "
            f"input with sizes {list(input._shape)} and grid with sizes {list(grid._shape)}"
        )
    elif grid._shape[0] != input._shape[0]:
        text = (
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input._shape)} and grid with sizes {list(grid._shape)}"
        )
    elif grid._shape[-1] != rank - 2:
        text = (
            f"grid_sampler(): expected grid to have size {rank - 2} in last dimension, but got grid "
            f"with sizes {list(grid._shape)}"
        )
    elif 0 in input._shape[2:]:
        text = (
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
            f"{list(input._shape)}"
        )
    elif mode == "bicubic" and rank == 5:
        text = "grid_sampler(): bicubic interpolation only supports 4D input"
    else:
        return
    raise ShapeError(
        text,
        expected="input (N, C, H, W) with grid (N, h, w, 2), or (N, C, D, H, W) with (N, d, h, w, 3)",
        got=f"{describe('input', input)}, {describe('grid', grid)}",
        fix="reshape the grid",
    )


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """The input's values at the places of a grid, whose last dimension holds x, y (, z) from -1 to 1.

    Shapes: (N, C, H, W), (N, h, w, 2) -> (N, C, h, w); with three dimensions likewise. Errors: ArgumentError,
    ShapeError.
    """
    _chosen("mode", mode, MODES)
    _chosen("padding_mode", padding_mode, PADDINGS)
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
            "1.3.0. Please specify align_corners=True if the old behavior is desired.",
            stacklevel=2,
        )
    _check(input, grid, mode)
    return _sampled(input, grid, mode, padding_mode, bool(align_corners))


@ComposedPart
def _sampled(input: Tensor, grid: Tensor, mode: str, padding: str, align: bool) -> Any:
    """The same, after the checks."""
    sampler = _Sampler(input, padding, align)
    count = math.prod(grid._shape[1:-1])
    flat = reshape(grid, (grid._shape[0], count, grid._shape[-1]))  # (N, h, w, d) -> (N, P, d)
    places = [
        sampler.unnormalized(flat[..., number], axis)
        for axis, number in enumerate(reversed(range(grid._shape[-1])))
    ]
    result = reshape(getattr(sampler, mode)(places), (*input._shape[:2], *grid._shape[1:-1]))
    return rename_record(result, f"GridSampler{grid._shape[-1]}DBackward0")


class _Sampler:
    """Values of one input at places (N, P) per axis, first axis first."""

    def __init__(self, input: Tensor, padding: str, align: bool) -> None:
        self.sizes = input._shape[2:]
        self.padding, self.align = padding, align
        batch, channels = input._shape[:2]
        self.lines = reshape(input, (batch, channels, math.prod(self.sizes)))

    def unnormalized(self, x: Tensor, axis: int) -> Any:
        """From [-1, 1] to places."""
        size = self.sizes[axis]
        return (x + 1) * ((size - 1) / 2) if self.align else ((x + 1) * size - 1) / 2

    def padded(self, x: Tensor, axis: int) -> Any:
        """A place outside moved to where the padding finds its value."""
        size = self.sizes[axis]
        if self.padding == "reflection":
            low, high = (0.0, size - 1.0) if self.align else (-0.5, size - 0.5)
            x = _reflected(x, low, high - low)
        if self.padding != "zeros":
            x = where(x <= 0, 0, where(x >= size - 1, size - 1, x))
        return x

    def at(self, places: list[Tensor], shares: list[Tensor]) -> Any:
        """The sum of the values at T^d whole places, T along each of d axes, each times its shares; those outside count
        nothing. One gather for all of them. Shapes: (N, T, P) per axis -> (N, C, P)."""
        (batch, taps, count), rank = places[0]._shape, len(places)
        index: Any = None
        weight: Any = None
        for axis, (place, share, size) in enumerate(zip(places, shares, self.sizes, strict=True)):
            shape = (batch, *(taps if other == axis else 1 for other in range(rank)), count)
            inside = (place >= 0) & (place <= size - 1)
            whole = reshape(cast(where(inside, place.detach(), 0), dtypes.int64), shape)
            share = reshape(where(inside, share, 0), shape)
            index = whole if index is None else index * size + whole
            weight = share if weight is None else weight * share
        channels, every = self.lines._shape[1], taps**rank
        index = expand(reshape(index, (batch, 1, every * count)), (batch, channels, every * count))
        found = reshape(gather(self.lines, 2, index), (batch, channels, every, count))
        weighed = found * cast(reshape(weight, (batch, 1, every, count)), found._dtype)
        return sum_of(weighed, 2) if every > 1 else reshape(weighed, (batch, channels, count))

    def nearest(self, places: list[Tensor]) -> Any:
        """The value of the nearest element; halves go to the even one."""
        moved = [_row(self.padded(x, axis)) for axis, x in enumerate(places)]
        return self.at([call("round", x) for x in moved], [x * 0 + 1 for x in moved])

    def bilinear(self, places: list[Tensor]) -> Any:
        """Linear between the neighbours along each axis."""
        moved = [_row(self.padded(x, axis)) for axis, x in enumerate(places)]
        low = [call("floor", x) for x in moved]
        gap = [x - base for x, base in zip(moved, low, strict=True)]
        steps = host.from_numpy(np.array([[0.0], [1.0]]), moved[0]._dtype)
        shares = [where(steps > 0, part, 1 - part) for part in gap]
        return self.at([base + steps for base in low], shares)

    def bicubic(self, places: list[Tensor]) -> Any:
        """Keys' cubic convolution of four neighbours along each axis."""
        low = [call("floor", _row(x)) for x in places]
        shares = [
            concat(tuple(_cubic_weights(_row(x) - base)), 1)
            for x, base in zip(places, low, strict=True)
        ]
        steps = host.from_numpy(np.arange(-1.0, 3.0)[:, None], low[0]._dtype)
        return self.at([self.padded(x + steps, axis) for axis, x in enumerate(low)], shares)


def _row(x: Tensor) -> Any:
    """(N, P) -> (N, 1, P)."""
    return reshape(x, (x._shape[0], 1, x._shape[1]))


def _reflected(x: Tensor, low: float, span: float) -> Any:
    if span == 0:
        return x * 0
    distance = call("abs", x - low)
    turns = call("floor", distance / span).detach()
    rest = distance - turns * span
    return where(call("remainder", turns, 2) == 0, rest, span - rest) + low


def _cubic_weights(t: Tensor) -> list[Any]:
    """The weights of the elements at -1, 0, 1 and 2 for a place t after 0."""
    a = _CUBIC

    def near(x: Tensor) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Any:
        return ((x - 5) * x + 8) * x * a - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


# -- affine maps ---------------------------------------------------------------------------------------------------


def _steps(size: int, align: bool, dtype: DType) -> Any:
    """Places from -1 to 1: the ends of the outer elements, or their middles."""
    if size == 1:
        return host.from_numpy(np.zeros(1), dtype)
    ends = np.linspace(-1, 1, size)
    return host.from_numpy(ends if align else ends * (size - 1) / size, dtype)


def affine_grid(
    theta: Tensor, size: list[int] | Sequence[int], align_corners: bool | None = None
) -> Any:
    """The grid of an affine map for `grid_sample`.

    Shapes: (N, 2, 3) and a size (N, C, H, W) -> (N, H, W, 2); (N, 3, 4) and (N, C, D, H, W) -> (N, D, H, W, 3).
    """
    need_tensor("affine_grid", theta)
    sizes = whole_sizes((size,), "affine_grid")
    spatial = len(sizes) - 2
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
            "1.3.0. Please specify align_corners=True if the old behavior is desired.",
            stacklevel=2,
        )
    _check_affine(theta, sizes, spatial)
    if align_corners and min(sizes[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. This "
            "is not an intended use case of affine_grid. See the documentation of affine_grid for details.",
            stacklevel=2,
        )
    columns = []
    for axis in reversed(range(spatial)):  # x first
        line = _steps(sizes[2 + axis], bool(align_corners), theta._dtype)
        shape = [1] * spatial
        shape[axis] = sizes[2 + axis]
        columns.append(expand(reshape(line, tuple(shape)), sizes[2:]))
    columns.append(columns[0] * 0 + 1)
    import weft

    base = reshape(weft.stack(columns, -1), (math.prod(sizes[2:]), spatial + 1))
    result = product(base, transpose(theta), "affine_grid")  # (P, d + 1) @ (N, d + 1, d)
    return reshape(result, (sizes[0], *sizes[2:], spatial))


def _check_affine(theta: Tensor, sizes: tuple[int, ...], spatial: int) -> None:
    if theta._dtype.category != 2:
        text = f"Expected theta to have floating point type, but got {theta._dtype}"
    elif spatial not in (2, 3) or min(sizes) < 1:
        text = f"Expected non-zero, positive output size. Got {sizes}"
        if spatial not in (2, 3):
            text = (
                "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
                f"respectively. Got size {sizes}"
            )
    elif tuple(theta._shape) != (sizes[0], spatial, spatial + 1):
        text = (
            f"Expected a batch of {spatial}D affine matrices of shape Nx{spatial}x{spatial + 1} for size "
            f"{sizes}. Got {tuple(theta._shape)}."
        )
    else:
        return
    raise ArgumentError(
        text,
        expected="theta (N, 2, 3) with (N, C, H, W), or (N, 3, 4) with (N, C, D, H, W)",
        got=f"{describe('theta', theta)}, size {sizes}",
        fix="check the batch size and the number of dimensions",
    )


__all__ = ["affine_grid", "grid_sample"]
