# ruff: noqa: A001, A002 - PyTorch's names
"""Power-average, fractional and inverse pooling, and normalisation across neighbouring channels.

They build on the windows of `functional_pool`; random windows come from the framework's generator.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from weft.functional.random.generator import unit
from weft.functional.reductions.sums_and_extrema import first_extreme
from weft.functional.shape.slicing import narrow
from weft.functional.support import host
from weft.functional.support.index_bounds import check_index
from weft.functional.support.memory_formats import in_order
from weft.nn.functional.conv_arguments import numbers
from weft.nn.functional.pooling import arguments
from weft.nn.functional.pooling.windowed import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    batched,
    unbatched,
)
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import expand, full, gather, iota, pad, reshape, scatter, where
from weft.tensor.arguments import Shape, describe, need_integer, need_tensor

_AVERAGES = (avg_pool1d, avg_pool2d, avg_pool3d)


# -- power averages ------------------------------------------------------------------------------------------------


def _lp_pool(
    input: Tensor,
    power: float,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] | None,
    ceil_mode: bool,
    spatial: int,
) -> Any:
    sizes = arguments.numbers(f"lp_pool{spatial}d", kernel, spatial, "kernel_size")
    mean = _AVERAGES[spatial - 1](input**power, sizes, stride, 0, ceil_mode)
    size = call("relu", call("abs", mean))
    return (call("sign", mean) * size * math.prod(sizes)) ** (1.0 / power)


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Any:
    """The p-th root of the sum of p-th powers of each window of (N, C, L)."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 1)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Any:
    """The p-th root of the sum of p-th powers of each window of (N, C, H, W)."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 2)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Any:
    """The p-th root of the sum of p-th powers of each window of (N, C, D, H, W)."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 3)


# -- inverse of maximum pooling ------------------------------------------------------------------------------------


def _unpooled_size(
    input: Tensor,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    wanted: Sequence[int] | None,
    spatial: int,
) -> Shape:
    plain = [
        (size - 1) * step + width - 2 * edge
        for size, width, step, edge in zip(
            input._shape[-spatial:], kernel, stride, padding, strict=True
        )
    ]
    if wanted is None:
        return tuple(plain)
    sizes = tuple(wanted)[-spatial:]
    if len(tuple(wanted)) not in (spatial, spatial + 1, spatial + 2):
        raise ArgumentError(
            f"output_size should be a sequence containing {spatial} or {spatial + 2} elements, but it "
            f"has a length of '{len(tuple(wanted))}'",
            expected=f"{spatial} sizes",
            got=repr(wanted),
            fix="pass the spatial sizes",
        )
    for size, base, step in zip(sizes, plain, stride, strict=True):
        if not base - step < size < base + step:
            raise ArgumentError(
                f'invalid output_size "{sizes}" (dim {list(sizes).index(size)} must be between '
                f"{base - step} and {base + step})",
                expected=f"between {base - step} and {base + step}",
                got=str(size),
                fix="pass the size that was pooled",
            )
    return sizes


def _check_rank(name: str, input: Tensor, spatial: int) -> None:
    if len(input._shape) not in (spatial + 1, spatial + 2):
        raise ShapeError(
            f"{name}(): Expected {spatial + 1}D or {spatial + 2}D input, but got input of size: "
            f"{list(input._shape)}",
            expected=f"(N, C, *) with {spatial} sizes",
            got=describe("input", input),
            fix="add dimensions with unsqueeze",
        )


def _check_places(indices: Tensor, sizes: Shape) -> None:
    """Errors: IndexRangeError for a position outside of the result, where the indices are known."""
    try:
        check_index("max_unpool", indices, math.prod(sizes), None, False)
    except IndexRangeError:
        values = host.to_numpy(indices)
        worst = values[(values < 0) | (values >= math.prod(sizes))][0]
        raise IndexRangeError(
            f"Found an invalid max index: {worst} (output volumes are of size {'x'.join(map(str, sizes))})",
            expected=f"0 <= index < {math.prod(sizes)}",
            got=str(worst),
            fix="pass the indices and sizes of the pooling that is undone",
        ) from None


def _max_unpool(
    name: str,
    input: Tensor,
    indices: Tensor,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] | None,
    padding: int | Sequence[int],
    output_size: Sequence[int] | None,
    spatial: int,
) -> Any:
    need_tensor(name, input)
    need_tensor(name, indices, "indices", 2)
    _check_rank(name, input, spatial)
    sizes = numbers(kernel, spatial, "kernel_size")
    steps = sizes if stride is None else numbers(stride, spatial, "stride")
    widths = numbers(padding, spatial, "padding")
    if tuple(indices._shape) != tuple(input._shape):
        raise ShapeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(input._shape)}) "
            f"but got indices tensor with shape: {list(indices._shape)}",
            expected=f"indices {list(input._shape)}",
            got=describe("indices", indices),
            fix="pass what max_pool gave with return_indices=True",
        )
    places = _unpooled_size(input, sizes, steps, widths, output_size, spatial)
    _check_places(indices, places)
    x, index = batched(input, spatial), batched(indices, spatial)
    count = math.prod(x._shape[2:])
    lines = (*x._shape[:2], count)
    canvas = full((*x._shape[:2], math.prod(places)), 0, x._dtype)
    index = cast(reshape(index, lines), dtypes.int64)
    result = scatter(canvas, 2, index, reshape(x, lines))
    return unbatched(reshape(result, (*x._shape[:2], *places)), input, spatial)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
) -> Any:
    """Maxima put back at their places in (N, C, L), zeros elsewhere."""
    return _max_unpool("max_unpool1d", input, indices, kernel_size, stride, padding, output_size, 1)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
) -> Any:
    """Maxima put back at their places in (N, C, H, W), zeros elsewhere."""
    return _max_unpool("max_unpool2d", input, indices, kernel_size, stride, padding, output_size, 2)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
) -> Any:
    """Maxima put back at their places in (N, C, D, H, W), zeros elsewhere."""
    return _max_unpool("max_unpool3d", input, indices, kernel_size, stride, padding, output_size, 3)


# -- fractional maxima ---------------------------------------------------------------------------------------------


def _fractional_sizes(
    input: Tensor,
    output_size: int | Shape | None,
    output_ratio: float | tuple[float, ...] | None,
    spatial: int,
) -> Shape:
    if output_size is None and output_ratio is None:
        raise ArgumentError(
            f"fractional_max_pool{spatial}d requires specifying either an output_size or an output_ratio",
            expected="one of the two",
            got="neither",
            fix="pass output_size",
        )
    if output_size is not None:
        return numbers(output_size, spatial, "output_size")
    ratios: tuple[Any, ...] = (
        output_ratio if isinstance(output_ratio, tuple) else (output_ratio,) * spatial
    )
    if len(ratios) != spatial or not all(
        isinstance(part, int | float) and 0 < part < 1 for part in ratios
    ):
        raise ArgumentError(
            f"output_ratio must be between 0 and 1 (got {output_ratio!r})",
            expected=f"one number, or {spatial}, between 0 and 1",
            got=repr(output_ratio),
            fix="pass the share of places to keep",
        )
    return tuple(
        int(size * ratio) for size, ratio in zip(input._shape[-spatial:], ratios, strict=True)
    )


def _starts(sample: Tensor, size: int, window: int, places: int) -> Any:
    """The first element of each window: steps of random length, the last window at the end. Source: Graham (2014)."""
    if places == 1:
        return reshape(sample * 0 + (size - window), (*sample._shape, 1))
    step = (size - window) / (places - 1)
    column = reshape(sample, (*sample._shape, 1))
    grid = cast(iota((places,)), sample._dtype)
    begin = call("trunc", (grid + column) * step) - call("trunc", column * step)
    return where(grid == places - 1, size - window, begin)


def _samples_for(x: Tensor, samples: Tensor | None, spatial: int) -> Any:
    """The random numbers that place windows, [n, c, spatial]; of given ones the first n. Errors: ShapeError,
    DTypeError for others."""
    rows, channels = x._shape[:2]
    if samples is None:
        return unit((rows, channels, spatial), x._dtype)
    need_tensor("fractional_max_pool", samples, "_random_samples")
    text = _misfit(samples, x, spatial)
    if text:
        raise (DTypeError if "dtype" in text else ShapeError)(
            text,
            expected=f"{x._dtype.name}[{rows}, {channels}, {spatial}], or more rows",
            got=describe("samples", samples),
            fix="leave _random_samples out",
        )
    return narrow(samples, 0, 0, rows)


def _misfit(samples: Tensor, x: Tensor, spatial: int) -> str:
    """PyTorch's error text for random numbers that do not fit; empty if they fit."""
    shape = samples._shape
    if samples._dtype is not x._dtype:
        return "Expect _random_samples to have the same dtype as input"
    if len(shape) != 3:
        return f"Expect _random_samples to have 3 dimensions, got {len(shape)}"
    if shape[0] < x._shape[0]:
        return "Expect _random_samples.size(0) no less then input batch size."
    if shape[1] != x._shape[1]:
        return "Expect _random_samples.size(1) equals to input channel size."
    return (
        ""
        if shape[2] == spatial
        else f"Expect _random_samples.size(2) equals to {spatial}; got {shape[2]}."
    )


def _fractional(
    name: str,
    input: Tensor,
    kernel: int | Sequence[int],
    output_size: int | Shape | None,
    output_ratio: float | tuple[float, ...] | None,
    samples: Tensor | None,
    spatial: int,
) -> Any:
    """Values and indices of the maxima of randomly placed windows."""
    need_tensor(name, input)
    _check_rank(name, input, spatial)
    window = numbers(kernel, spatial, "kernel_size")
    places = _fractional_sizes(input, output_size, output_ratio, spatial)
    arguments.need_elements(name, input, spatial)
    x = batched(input, spatial)
    sizes = x._shape[2:]
    for size, width, count in zip(sizes, window, places, strict=True):
        if count + width - 1 > size:
            raise ShapeError(
                f"{name}(): pool size {width} too large relative to input size {size}",
                expected=f"places + window - 1 <= {size}",
                got=f"{count} places of {width}",
                fix="ask for fewer places",
            )
    samples = _samples_for(x, samples, spatial)
    linear: Any = None
    for axis in range(spatial):
        # in two dimensions the first sample places the columns
        sample = samples[..., spatial - 1 - axis if spatial == 2 else axis]
        begin = _starts(sample, sizes[axis], window[axis], places[axis])
        shape = [1] * (2 * spatial)
        shape[axis], shape[spatial + axis] = places[axis], window[axis]
        line = cast(reshape(begin, (*begin._shape, 1)), dtypes.int64) + iota((window[axis],))
        line = reshape(line, (*x._shape[:2], *shape))
        linear = line if linear is None else linear * sizes[axis] + line
    lead, count = x._shape[:2], math.prod(places) * math.prod(window)
    linear = expand(linear, (*lead, *places, *window))
    lines = reshape(x, (*lead, math.prod(sizes)))
    found = gather(lines, 2, reshape(linear, (*lead, count)))
    axes = tuple(range(2 + spatial, 2 + 2 * spatial))
    values, best = first_extreme("max", reshape(found, linear._shape), axes, False)
    options = reshape(linear, (*lead, math.prod(places), math.prod(window)))
    index = gather(options, 3, reshape(best, (*lead, math.prod(places), 1)))
    index = reshape(index, (*lead, *places))
    values, index = unbatched(values, input, spatial), unbatched(index, input, spatial)
    return in_order(values), in_order(index)


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Shape | None = None,
    output_ratio: float | tuple[float, ...] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """`fractional_max_pool2d` with the places of the maxima."""
    name = "fractional_max_pool2d"
    return _fractional(name, input, kernel_size, output_size, output_ratio, _random_samples, 2)


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Shape | None = None,
    output_ratio: float | tuple[float, ...] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """`fractional_max_pool3d` with the places of the maxima."""
    name = "fractional_max_pool3d"
    return _fractional(name, input, kernel_size, output_size, output_ratio, _random_samples, 3)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Shape | None = None,
    output_ratio: float | tuple[float, ...] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The maxima of windows at random steps over (N, C, H, W) (Graham, 2014)."""
    found = fractional_max_pool2d_with_indices(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )
    return found if return_indices else found[0]


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Shape | None = None,
    output_ratio: float | tuple[float, ...] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The maxima of windows at random steps over (N, C, D, H, W) (Graham, 2014)."""
    found = fractional_max_pool3d_with_indices(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )
    return found if return_indices else found[0]


# -- neighbouring channels -----------------------------------------------------------------------------------------


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """x / (k + alpha mean(x^2 over `size` neighbouring channels))^beta. Shapes: (N, C, *)."""
    rank = len(need_tensor("local_response_norm", input)._shape)
    if rank < 3:
        raise ArgumentError(
            f"Expected 3D or higher dimensionality                          input (got {rank} dimensions)",
            expected="(N, C, *)",
            got=describe("input", input),
            fix="add dimensions with unsqueeze",
        )
    if not input.numel():
        return input
    size = need_integer("local_response_norm", size, "size")
    edges = ((0, 0), (size // 2, (size - 1) // 2), *((0, 0),) * (rank - 2))
    neighbours = pad(call("square", input), edges).unfold(1, size, 1)
    mean = neighbours.sum(-1) / size
    return input / (mean * alpha + k) ** beta


def pool_with_indices(name: str) -> Any:
    """`max_pool1d_with_indices` and its like: a pooling function that always returns indices."""
    from weft.nn.functional.pooling import adaptive, windowed

    place = adaptive if name.startswith("adaptive") else windowed
    pool = getattr(place, name)

    def with_indices(*args: object, **options: object) -> Any:
        given = inspect.signature(pool).bind(*args, **options)
        return pool(**{**given.arguments, "return_indices": True})

    with_indices.__name__ = with_indices.__qualname__ = f"{name}_with_indices"
    with_indices.__doc__ = f"`{name}` with the places of the maxima."
    with_indices.__signature__ = inspect.signature(pool)  # type: ignore[attr-defined]
    return with_indices


max_pool1d_with_indices = pool_with_indices("max_pool1d")
max_pool2d_with_indices = pool_with_indices("max_pool2d")
max_pool3d_with_indices = pool_with_indices("max_pool3d")
adaptive_max_pool1d_with_indices = pool_with_indices("adaptive_max_pool1d")
adaptive_max_pool2d_with_indices = pool_with_indices("adaptive_max_pool2d")
adaptive_max_pool3d_with_indices = pool_with_indices("adaptive_max_pool3d")

__all__ = [
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d_with_indices",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "local_response_norm",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d_with_indices",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]
