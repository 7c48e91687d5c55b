# ruff: noqa: A001, A002 - PyTorch's names
"""Padding and resizing: constant, reflected, repeated and circular edges; nearest, linear and cubic interpolation;
pixel shuffling.

Constant padding is a region write; what the other kinds repeat, and the nearest elements, are taken along each
dimension by indices that are known here. Linear and cubic interpolation are weighted sums of such elements, one
dimension after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.engine.api.call_cache import composed_of_primitives
from weft.engine.api.deprecation import deprecated
from weft.engine.frontend.meta import is_on_meta
from weft.engine.frontend.node_factory import MOST_ELEMENTS
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.resolve import rename_record
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, NotDefinedError, ShapeError, UnsupportedModeError
from weft.functional.elementwise.comparison import fill_value
from weft.functional.support import host
from weft.functional.support.memory_formats import in_order, like_channels
from weft.nn.functional.im2col import check_not_empty
from weft.nn.functional.index_runs import Places, places_of, taken
from weft.nn.functional.pooling.adaptive import adaptive_avg_pool
from weft.nn.functional.recorded_taps import nearest_places, taps
from weft.ops.any_size import is_for_any_size
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import expand, permute, resample, reshape, resized, slice_axis, take
from weft.ops.primitives import pad as pad_value
from weft.tensor.arguments import (
    Shape,
    describe,
    need_integer,
    need_rank,
    need_tensor,
    no_kernel,
    per_dimension,
    widen,
)
from weft.tensor.memory.host_memory import need_room

Taps = tuple[Any, Any]  # index and weights: arrays of (taps, places)
# Output positions whose taps are computed at once, since they fit a cache; longer tables are not kept.
BLOCK = 1 << 14


def _table(compute: Callable[..., object], length: int, *geometry: object) -> Any:
    """A table of a geometry: a short one is kept for the next call, a long one would hold memory for ever."""
    return _kept(compute, *geometry) if length <= BLOCK else compute(*geometry)


@functools.lru_cache(1024)
def _kept(compute: Callable[..., object], *geometry: object) -> Any:
    return compute(*geometry)


@composed_of_primitives
def pad(input: Tensor, pad: list[int], mode: str = "constant", value: float | None = None) -> Any:
    """Elements added (or, with negative widths, cut) at both ends of the last dimensions, last dimension first."""
    need_tensor("pad", input)
    widths = [need_integer("pad", width, "pad", -MOST_ELEMENTS) for width in pad]
    if len(widths) % 2 or len(widths) // 2 > len(input._shape):
        text = (
            "Padding length must be divisible by 2"
            if len(widths) % 2
            else "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(widths)} and input of dimension {len(input._shape)}"
        )
        raise ShapeError(
            text,
            expected=f"up to {2 * len(input._shape)} widths, in pairs",
            got=str(widths),
            fix="pass (before, after) for each of the last dimensions",
        )
    pairs = [(0, 0)] * (len(input._shape) - len(widths) // 2)
    pairs += [(widths[i], widths[i + 1]) for i in range(len(widths) - 2, -1, -2)]
    if mode == "constant":
        made = _constant(input, pairs, fill_value(input._dtype, 0 if value is None else value))
        return _named(made, input, "ConstantPadNd")
    if value:
        raise ArgumentError(
            f'Padding mode "{mode}" doesn\'t take in value argument',
            expected="value=None, or mode='constant'",
            got=f"value={value}",
            fix="leave value away",
        )
    if mode not in ("reflect", "replicate", "circular"):
        raise UnsupportedModeError(
            f"Unrecognised padding mode {mode}",
            expected="constant, reflect, replicate or circular",
            got=repr(mode),
            fix="choose one of these",
        )
    _check_ranks(len(widths), len(input._shape))
    _check_copies(input, len(widths) // 2, pairs, mode)
    word = {"reflect": "Reflection", "replicate": "Replication"}.get(mode)
    if word and input._dtype.category == 0:
        raise no_kernel(f"{word.lower()}_pad{len(widths) // 2}d", input, "numbers", ".byte()")
    made = input
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            _check_edge(made, axis, before, after, mode)
            size = made._shape[axis]
            places = _table(_edge_places, size + before + after, size, before, after, mode)
            made = taken(made, axis, places)
    return _named(made, input, f"{word}Pad{len(widths) // 2}D") if word else own(made, input)


def _check_ranks(widths: int, rank: int) -> None:
    """Errors: NotImplementedError where padding by copies has no meaning for an input of `rank` dimensions."""
    if widths not in (2, 4, 6) or rank not in (widths // 2 + 1, widths // 2 + 2):
        raise NotDefinedError(
            f"Padding size {widths} is not supported for {rank}D input tensor.\n"
            "Supported for non-constant padding:\n  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)",
            expected="widths of all dimensions but channels, and the batch",
            got=f"{widths} widths for {rank} dimensions",
            fix="add dimensions with unsqueeze, or use mode='constant'",
        )


def _check_copies(x: Tensor, count: int, pairs: list[tuple[int, int]], mode: str) -> None:
    """Errors: ShapeError where there is nothing to copy in one of the last `count` dimensions, or nothing is left."""
    sizes = x._shape[-count:]
    left = [size + sum(pair) for size, pair in zip(sizes, pairs[-count:], strict=True)]
    if mode != "circular":
        check_not_empty(x, count + 1)
    if min(left) > 0 or 0 in sizes:
        return
    letters = "DHW"[-count:]
    before, after = (
        " ".join(f"{letter}: {size}" for letter, size in zip(letters, shown, strict=True))
        for shown in (sizes, left)
    )
    raise ShapeError(
        "Negative padding value is resulting in an empty dimension"
        if mode == "circular"
        else f"input ({before}) is too small. Calculated output {after}",
        expected="at least one element in each dimension",
        got=describe("input", x),
        fix="cut less",
    )


def _named(result: Tensor, input: Tensor, name: str) -> Any:
    """A result in memory of its own, its gradient record called as PyTorch's."""
    return like_channels(rename_record(own(result, input), f"{name}Backward0"), input)


def own(result: Tensor, input: Tensor) -> Any:
    """A result, a copy of it where nothing was to be done: writes into it are not seen in the input."""
    return result.clone() if result is input else result


def _constant(x: Tensor, pairs: list[tuple[int, int]], value: float) -> Any:
    for axis, (before, after) in enumerate(pairs):
        start, stop = max(-before, 0), x._shape[axis] - max(-after, 0)
        if start > stop and x._shape[axis]:
            raise ShapeError(
                f"The input size {x._shape[axis]}, plus negative padding {before} and {after}, resulted "
                "in a negative output size",
                expected="a positive size",
                got=describe("input", x),
                fix="cut less",
            )
        if (start, stop) != (0, x._shape[axis]):
            x = slice_axis(x, axis, start, stop - start)
    grown = tuple([(max(before, 0), max(after, 0)) for before, after in pairs])
    return pad_value(x, grown, value) if any(map(any, grown)) else x.clone()


def _check_edge(x: Tensor, axis: int, before: int, after: int, mode: str) -> None:
    """Errors: ShapeError on an edge that would need more than there is."""
    size = x._shape[axis]
    limit = size - 1 if mode == "reflect" else size
    if mode != "replicate" and max(before, after) > limit:
        raise ShapeError(
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
            f"({before}, {after}) at dimension {axis} of input {list(x._shape)}",
            expected=f"at most {limit}",
            got=f"({before}, {after})",
            fix="pad less, or use replicate",
        )


def _edge_places(size: int, before: int, after: int, mode: str) -> Places:
    """The position in the input of each element of a padded dimension."""
    if mode == "circular":  # what is cut off does not come back on the other side
        kept = np.arange(max(-before, 0), size - max(-after, 0))
        around = np.arange(-max(before, 0), len(kept) + max(after, 0)) % max(len(kept), 1)
        return places_of(kept[around])
    places = np.arange(-before, size + after)
    if mode == "replicate":
        return places_of(np.clip(places, 0, size - 1))
    places = np.abs(places)
    return places_of(np.where(places >= size, 2 * (size - 1) - places, places))


# -- interpolation -------------------------------------------------------------------------------------------------


_FORMATS = ("output size in (o1, o2, ...,oK)", "scale_factor in (s1, s2, ...,sK)")


def _sizes(
    input: Tensor, size: int | Shape | None, scale_factor: Any
) -> tuple[Shape, list[float | None]]:
    spatial = len(input._shape) - 2
    if (size is None) == (scale_factor is None):
        text = (
            "only one of size or scale_factor should be defined"
            if size is not None
            else "either size or scale_factor should be defined"
        )
        raise ArgumentError(
            text,
            expected="one of the two",
            got=f"size={size}, scale_factor={scale_factor}",
            fix="pass one",
        )
    given = size if size is not None else scale_factor
    if isinstance(given, (tuple, list)) and len(given) != spatial:
        raise ArgumentError(
            f"Input and {'output' if size is not None else 'scale_factor'} must have the same number of spatial "
            f"dimensions, but got input with spatial dimensions of {list(input._shape[2:])} and "
            f"{'output size of' if size is not None else 'scale_factor of shape'} {given}. Please provide input tensor "
            f"in (N, C, d1, d2, ...,dK) format and {_FORMATS[size is None]} format.",
            expected=f"one number, or {spatial} numbers",
            got=repr(given),
            fix="pass one number per spatial dimension",
        )
    if size is not None:
        wanted = tuple([int(s) for s in per_dimension("size", size, spatial)])
        return wanted, [None] * spatial
    factors = (
        [float(scale_factor)] * spatial
        if isinstance(scale_factor, (int, float))
        else [float(f) for f in scale_factor]
    )
    for factor in factors:
        if not abs(factor) < MOST_ELEMENTS:  # nan is not, either
            raise ArgumentError(
                "value cannot be converted to type int64_t without overflow",
                expected="finite factors that give sizes",
                got=str(factor),
                fix="check how the factor was computed",
            )
    wanted = tuple([int(have * f) for have, f in zip(input._shape[2:], factors, strict=True)])
    if not is_on_meta(input):
        need_room((*input._shape[:2], *wanted), input._dtype)
    return wanted, list(factors)


def _centres(
    places: np.ndarray, have: int, want: int, factor: float | None, align_corners: bool
) -> Any:
    """The position of each output element on the scale of the input's elements, which may be before the first."""
    if align_corners:
        return places * ((have - 1) / (want - 1) if want > 1 else 0.0)
    return (places + 0.5) * (1 / factor if factor else have / want) - 0.5


def _check_mode(input: Tensor, wanted: Shape, mode: str, antialias: bool) -> None:
    if antialias and (mode not in _FILTERS or len(wanted) != 2):
        raise ArgumentError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as "
            "input",
            expected="mode='bilinear' or 'bicubic' and (N, C, H, W)",
            got=f"mode={mode!r}, {describe('input', input)}",
            fix="leave antialias out",
        )
    if mode != "area" and len(wanted) not in _RANKS.get(mode, ()):
        raise NotDefinedError(
            _mode_refused(mode, len(input._shape)),
            got=f"mode={mode!r}, {describe('input', input)}",
            expected="nearest, nearest-exact, area; linear (3-D), bilinear and bicubic (4-D), trilinear (5-D)",
            fix="choose one of these",
        )
    if min(wanted) <= 0 and 0 not in input._shape[2:]:
        raise ArgumentError(
            f"Input and output sizes should be greater than 0, but got input ({_named_sizes(input._shape[2:])}) and "
            f"output ({_named_sizes(wanted)})",
            expected="sizes of at least 1",
            got=str(list(wanted)),
            fix="pass a larger size or scale_factor",
        )
    bytes_too = mode in _OF_BYTES and input._dtype is dtypes.uint8
    if input._dtype.category != 2 and not bytes_too:
        kernel = _KERNELS[mode].format(max(len(wanted), 2))
        raise no_kernel(kernel, input, "floats, or uint8" if mode in _OF_BYTES else "floats")


def _named_sizes(sizes: Shape) -> str:
    """Sizes with the letters of their dimensions, as PyTorch prints them."""
    return ", ".join(
        f"{letter}: {size}" for letter, size in zip("DHW"[-len(sizes) :], sizes, strict=True)
    )


def _mode_refused(mode: str, rank: int) -> str:
    if mode in _RANKS and rank in (3, 4, 5):
        return f"Got {rank}D input, but {mode} mode needs {_RANKS[mode][0] + 2}D input"
    return (
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank}D) for the modes: nearest | linear | "
        f"bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"
    )


def _check_options(
    mode: str, size: int | Shape | None, align_corners: bool | None, recompute: bool | None
) -> None:
    """Errors: ValueError on options that mean nothing together."""
    if align_corners is not None and mode in ("nearest", "area", "nearest-exact"):
        raise ArgumentError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
            "trilinear",
            expected="align_corners=None",
            got=f"mode={mode!r}, align_corners={align_corners}",
            fix="leave align_corners out, or choose another mode",
        )
    if recompute and size is not None:
        raise ArgumentError(
            "recompute_scale_factor is not meaningful with an explicit size.",
            expected="scale_factor beside recompute_scale_factor",
            got=f"size={size}",
            fix="leave recompute_scale_factor out",
        )


@composed_of_primitives
def interpolate(
    input: Tensor,
    size: int | None = None,
    scale_factor: list[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """(N, C, *) resized to `size` or by `scale_factor`: nearest, nearest-exact, linear, bilinear, trilinear, bicubic,
    area. `antialias` widens the filter of bilinear and bicubic where the result is smaller."""
    need_tensor("interpolate", input)
    if len(input._shape) not in (3, 4, 5):
        raise NotDefinedError(
            _mode_refused(mode, len(input._shape)),
            expected="an input of 3 to 5 dimensions",
            got=describe("input", input),
            fix="unsqueeze first",
        )
    wanted, factors = _sizes(input, size, scale_factor)
    _check_options(mode, size, align_corners, recompute_scale_factor)
    if recompute_scale_factor:
        factors = [None] * len(factors)
    _check_mode(input, wanted, mode, antialias)
    if mode == "area":
        return adaptive_avg_pool(input, wanted, len(wanted))
    if is_on_meta(input):
        return _named(_shaped(input, wanted), input, _record_name(mode, wanted, antialias))
    dtype = input._dtype
    if mode in ("nearest", "nearest-exact"):
        made = _nearest(input, wanted, factors, mode == "nearest-exact")
        return _named(made, input, _record_name(mode, wanted, False))
    if dtype is dtypes.uint8:
        return resized_bytes(input, wanted, factors, bool(align_corners), mode, antialias)
    made = widen(input)  # halves are rounded once, at the end
    for axis in _least_growth_first(input._shape, wanted):
        want, factor = wanted[axis - 2], factors[axis - 2]
        have = input._shape[axis]
        if is_for_any_size() and not antialias:
            tables = taps(have, want, factor, bool(align_corners), mode == "bicubic")
            made = resample(made, axis, tables[0], cast(tables[1], made._dtype))
            continue
        geometry = (have, want, factor, bool(align_corners), mode, antialias)
        # A filter that is wider than a step has as many taps as the input has elements.
        made = resampled(made, axis, _table(_taps, max(have, want), *geometry))
    return _named(cast(made, dtype), input, _record_name(mode, wanted, antialias))


def _shaped(x: Tensor, wanted: Shape) -> Any:
    """A tensor on the device meta that depends on another as what is resized does; no table is made of its places."""
    for axis, want in enumerate(wanted, 2):
        x = expand(slice_axis(x, axis, 0, 1), resized(x._shape, axis, want))
    return call("clone", x)


def _least_growth_first(shape: Shape, wanted: Shape) -> list[int]:
    """The axes to resize, ordered so that intermediate results are as small as can be; the last of equals first. Where
    a record is to hold for all sizes, the order does not depend on them."""
    axes = range(len(shape) - 1, 1, -1)
    if is_for_any_size():
        return list(axes)
    return sorted(axes, key=lambda axis: wanted[axis - 2] / max(shape[axis], 1))


def _record_name(mode: str, wanted: Shape, antialias: bool) -> str:
    """The name of the gradient record, as PyTorch's."""
    word = "".join(part.capitalize() for part in mode.split("-"))
    return f"Upsample{word}{len(wanted)}D" + ("Aa" if antialias else "")


def _nearest(x: Tensor, wanted: Shape, factors: list[float | None], exact: bool) -> Any:
    """Each element that of the input that is nearest, or the one before."""
    wide = x._dtype is dtypes.float64
    for axis, (want, factor) in enumerate(zip(wanted, factors, strict=True), 2):
        if is_for_any_size() and not (factor and factor.is_integer()):
            dtype = dtypes.float64 if wide else dtypes.float32
            x = take(x, axis, nearest_places(x._shape[axis], want, factor, exact, dtype))
            continue
        places = _table(_nearest_places, want, x._shape[axis], want, factor, exact, wide)
        x = taken(x, axis, places)
    return x


def _nearest_places(have: int, want: int, factor: float | None, exact: bool, wide: bool) -> Places:
    """The elements that are nearest, in the arithmetic of PyTorch's kernels: scales and positions in float64 for such
    tensors and in float32 for all others, whole numbers by rounding down in float32."""
    real: type[np.floating[Any]] = np.float64 if wide else np.float32
    scale = real(1 / factor) if factor else real(have) / real(want)
    positions = np.arange(want).astype(real)
    if exact:
        centers = scale * (positions + real(0.5)) - real(0.5)
        positions = np.maximum(centers, 0).astype(np.float64) + 0.5
    else:
        positions = scale * positions
    places = np.floor(positions.astype(np.float32)).astype(np.int64)
    return places_of(np.minimum(places, have - 1))


def resized_bytes(
    input: Tensor,
    wanted: Shape,
    factors: list[float | None],
    corners: bool,
    mode: str,
    antialias: bool,
) -> Any:
    """Bytes resized dimension by dimension, the last first, each rounded to bytes; weights are integers of 15 bits."""
    x = input
    for axis in range(len(x._shape) - 1, 1, -1):
        have, want, factor = x._shape[axis], wanted[axis - 2], factors[axis - 2]
        if have == want and factor in (None, 1.0):
            continue
        geometry = (have, want, factor, corners, mode, antialias)
        whole, bits = _table(_whole_weights, max(have, want), *geometry)
        total = resampled(cast(x, dtypes.int32), axis, whole)
        rounded = call("bitwise_right_shift", total + 2 ** (bits - 1), bits)
        x = cast(rounded.clamp(0, 255), dtypes.uint8)
    return like_channels(in_order(own(x, input)), input)


def _whole_weights(
    have: int, want: int, factor: float | None, corners: bool, mode: str, antialias: bool
) -> tuple[Taps, int]:
    """The taps of a geometry, each element once, their weights as integers, and the bits behind the point."""
    taps = _taps(have, want, factor, corners, mode, antialias)
    index, weights = (array.copy() for array in taps)
    for tap in range(len(index) - 1, 0, -1):  # a repeated edge is one tap
        again = index[tap] == index[tap - 1]
        weights[tap - 1] += np.where(again, weights[tap], 0.0)
        index[tap] = np.where(again, -1, index[tap])
    weights[index < 0] = 0.0
    bits, top = 0, float(weights.max(initial=0.0))
    while bits < 22 and int(0.5 + top * 2 ** (bits + 1)) < 2**15:
        bits += 1
    return (index, np.trunc(weights * 2**bits + np.copysign(0.5, weights))), bits


def resampled(x: Tensor, axis: int, taps: Taps) -> Any:
    """The sums of weighted elements along an axis."""
    index, weights = taps
    return resample(x, axis, host.from_numpy(index), host.from_numpy(weights, x._dtype))


def _taps(
    have: int, want: int, factor: float | None, corners: bool, mode: str, antialias: bool
) -> Taps:
    """The input elements that contribute to each output element, and their weights."""
    if antialias:
        return filtered(have, want, factor, corners, mode)
    steps = (np.arange(-1, 3) if mode == "bicubic" else np.arange(2))[:, None]
    index = np.empty((len(steps), want), np.int64)
    weights = np.empty(index.shape)
    for start in range(0, want, BLOCK):
        block = slice(start, min(start + BLOCK, want))
        places = _centres(np.arange(block.start, block.stop), have, want, factor, corners)
        if mode != "bicubic":
            places = np.maximum(places, 0)
        low = np.floor(places).astype(np.int64)
        distance = np.abs(places - low - steps)
        weights[:, block] = _keys(distance, -0.75) if mode == "bicubic" else 1 - distance
        index[:, block] = np.clip(low + steps, 0, have - 1)
    return index, weights


def _keys(distance: np.ndarray, a: float) -> Any:
    """The weights of cubic convolution. Source: Keys (1981), a = -3/4, or -1/2 for filters."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance < 1, near, np.where(distance < 2, far, 0.0))


def filtered(have: int, want: int, factor: float | None, align_corners: bool, mode: str) -> Taps:
    """The same where the filter is as wide as the step."""
    half, shape = _FILTERS[mode]
    scale = 1 / factor if factor else have / want
    if align_corners:
        scale = (have - 1) / (want - 1) if want > 1 else 0.0
    stretch = max(scale, 1.0)
    centres = scale * (np.arange(want) + 0.5)
    first = np.maximum((centres - half * stretch + 0.5).astype(np.int64), 0)
    last = np.minimum((centres + half * stretch + 0.5).astype(np.int64), have)
    index = first + np.arange(max(int((last - first).max(initial=1)), 1))[:, None]
    weights = np.where(index < last, shape(np.abs(index - centres + 0.5) / stretch), 0.0)
    return np.where(index < last, index, -1), weights / weights.sum(0)


_FILTERS: dict[str, Any] = {
    "bilinear": (1, lambda distance: np.maximum(1 - distance, 0)),
    "bicubic": (2, lambda distance: _keys(distance, -0.5)),
}
_OF_BYTES = ("nearest", "nearest-exact", "bilinear", "bicubic")  # which mix elements of uint8, too
_WEIGHTS = "compute_indices_weights_"
_KERNELS = {
    "nearest": f"{_WEIGHTS}nearest",
    "nearest-exact": f"{_WEIGHTS}nearest",
    "linear": f"{_WEIGHTS}linear",
    "bilinear": f"{_WEIGHTS}linear",
    "trilinear": f"{_WEIGHTS}linear",
    "bicubic": f"{_WEIGHTS}cubic",
    "area": "adaptive_avg_pool{}d",
}
_RANKS = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "bicubic": (2,),
    "trilinear": (3,),
}


@deprecated(
    "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", UserWarning
)
def upsample(
    input: Tensor,
    size: object = None,
    scale_factor: object = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    """`interpolate` under its older name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


@deprecated(
    "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
    UserWarning,
)
def upsample_nearest(input: Tensor, size: object = None, scale_factor: float | None = None) -> Any:
    """`interpolate` to the nearest element, under its older name."""
    return interpolate(input, size, scale_factor, "nearest")


@deprecated(
    "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
    UserWarning,
)
def upsample_bilinear(input: Tensor, size: object = None, scale_factor: float | None = None) -> Any:
    """`interpolate` between four neighbours, with the corners aligned, under its older name."""
    return interpolate(input, size, scale_factor, "bilinear", True)


def _factor(name: str, value: int, argument: str) -> int:
    """The factor of a shuffle. Errors: ArgumentError below 1."""
    factor = need_integer(name, value, argument)
    if factor < 1:
        raise ArgumentError(
            f"{name} expects a positive {argument}, but got {factor}",
            expected=f"{argument} >= 1",
            got=str(value),
            fix="pass the factor of the sizes",
        )
    return factor


@composed_of_primitives
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Any:
    """(*, C r^2, H, W) -> (*, C, H r, W r)."""
    need_rank("pixel_shuffle", need_tensor("pixel_shuffle", input), 3)
    *lead, channels, height, width = input._shape
    r = _factor("pixel_shuffle", upscale_factor, "upscale_factor")
    if channels % (r * r):
        raise ShapeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
            f"upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}",
            expected=f"channels divisible by {r * r}",
            got=describe("input", input),
            fix="choose another factor",
        )
    n = len(lead)
    x = reshape(input, (*lead, channels // (r * r), r, r, height, width))
    x = permute(x, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    made = reshape(x, (*lead, channels // (r * r), height * r, width * r))
    return like_channels(made, input)


@composed_of_primitives
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Any:
    """(*, C, H r, W r) -> (*, C r^2, H, W)."""
    need_rank("pixel_unshuffle", need_tensor("pixel_unshuffle", input), 3)
    *lead, channels, height, width = input._shape
    r, n = _factor("pixel_unshuffle", downscale_factor, "downscale_factor"), len(lead)
    if height % r or width % r:
        side, size = (-2, height) if height % r else (-1, width)
        raise ShapeError(
            f"pixel_unshuffle expects {'height' if height % r else 'width'} to be divisible by downscale_factor, but "
            f"input.size({side})={size} is not divisible by {r}",
            expected=f"height and width divisible by {r}",
            got=describe("input", input),
            fix="pad or crop the input",
        )
    x = reshape(input, (*lead, channels, height // r, r, width // r, r))
    x = permute(x, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return like_channels(reshape(x, (*lead, channels * r * r, height // r, width // r)), input)


__all__ = [
    "interpolate",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]
