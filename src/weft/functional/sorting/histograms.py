# ruff: noqa: A002 - PyTorch's names
"""Histograms: counts of elements, or of points in several dimensions, between edges. They read their values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.api.api_function import publish
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, ShapeError
from weft.functional.support import host
from weft.functional.support.not_differentiable import underived
from weft.functional.support.return_types import result_type
from weft.functional.support.variants import give_all, given
from weft.tensor.arguments import describe, need_rank, need_tensor

if TYPE_CHECKING:
    from weft._typing import Array


BLOCK = 1 << 14  # elements that are counted at a time
Histogram = result_type("histogram")
Histogramdd = result_type("histogramdd")


def _bounds(
    name: str, array: np.ndarray, low: float, high: float, room: float
) -> tuple[float, float]:
    """The outer edges: those of the values where both are equal."""
    if low == high and array.size:
        low, high = float(array.min()), float(array.max())
    if low == high:
        low, high = low - room, high + room
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ArgumentError(
            f"{name}: range of [{low}, {high}] is not finite",
            expected="finite bounds",
            got=f"{low}, {high}",
            fix="pass min and max",
        )
    if low > high:
        raise ArgumentError(
            f"{name}: max must be larger than min"
            if name == "torch.histc"
            else f"{name}: max must be larger than min",
            expected="min <= max",
            got=f"{low}, {high}",
            fix="swap them",
        )
    return low, high


def _blocks(rows: np.ndarray) -> Iterator[slice]:
    """The rows of values, or of points, some at a time: counting them takes several times their memory."""
    count = max(BLOCK // max(math.prod(rows.shape[1:]), 1), 1)
    for start in range(0, len(rows), count):
        yield slice(start, start + count)


def histc(
    input: Tensor, bins: int = 100, min: int = 0, max: int = 0, *, out: Tensor | None = None
) -> Any:
    """The number of elements in each of `bins` equal intervals from min to max (of the values if both are equal).
    Reads the values."""
    need_tensor("histc", input)
    if bins <= 0:
        raise ArgumentError(
            f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0",
            expected="bins > 0",
            got=str(bins),
            fix="pass 1 or more",
        )
    array = host.to_numpy(input).reshape(-1)
    low, high = _bounds("torch.histc", array, float(min), float(max), 1.0)
    counts = np.zeros(bins, np.int64)
    for block in map(array.__getitem__, _blocks(array)):
        kept = block[(block >= low) & (block <= high)]
        places = ((kept - low) / (np.asarray(high, kept.dtype) - low) * bins).astype(np.int64)
        counts += np.bincount(np.minimum(places, bins - 1), minlength=bins)
    return given(out, host.from_numpy(counts, input._dtype))


def _edges(bins: Tensor | int, low: float, high: float, dtype: np.dtype[np.generic]) -> Any:
    if isinstance(bins, Tensor):
        return host.to_numpy(bins)
    if bins < 1:
        raise ArgumentError(
            f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0",
            expected="bins >= 1",
            got=str(bins),
            fix="pass how many intervals to count in",
        )
    return np.linspace(low, high, bins + 1).astype(dtype)


def _ascends(edges: np.ndarray) -> bool:
    return not (~(edges[1:] >= edges[:-1])).any()


def _counted(
    points: np.ndarray, edges: list[np.ndarray], equal: list[bool], weights: Array | None
) -> Any:
    """The number of points, or the sum of their weights, between edges; `equal` says where these are equally far
    apart."""
    sizes = [len(ends) - 1 for ends in edges]
    total = np.zeros(math.prod(sizes))
    for block in _blocks(points):
        columns = points[block].astype(np.float64).T
        inside = np.ones(columns.shape[1], bool)
        for column, ends in zip(columns, edges, strict=True):
            inside &= (column >= ends[0]) & (column <= ends[-1])
        place = np.zeros(int(np.count_nonzero(inside)), np.int64)
        for column, ends, same in zip(columns, edges, equal, strict=True):
            place = place * (len(ends) - 1) + _places(column[inside], ends, same)
        shares = None if weights is None else weights[block][inside]
        total += np.bincount(place, shares, len(total))
    return total.reshape(sizes)


def _places(values: np.ndarray, edges: np.ndarray, equal: bool) -> Any:
    """The interval of each value between the first edge and the last. Of edges out of order it is, as in PyTorch, where
    a binary search for the first larger edge ends."""
    last = len(edges) - 2
    if not equal or not edges[-1] > edges[0]:
        ordered = _ascends(edges)
        found = np.searchsorted(edges, values, "right") if ordered else _first_larger(edges, values)
        return np.clip(found - 1, 0, last)
    guess = ((values - edges[0]) * ((last + 1) / (edges[-1] - edges[0]))).astype(np.int64)
    place = np.minimum(guess, last)  # right, or beside it, since edges are rounded
    place -= values < edges[place]
    place += (values >= edges[place + 1]) & (place < last)
    return place


def _first_larger(edges: np.ndarray, values: np.ndarray) -> Any:
    """The position of the first edge above each value, found by a binary search that halves the rest."""
    first, rest = np.zeros(len(values), int), np.full(len(values), len(edges))
    while rest.any():
        half = rest // 2
        right = (rest > 0) & ~(values < edges[np.minimum(first + half, len(edges) - 1)])
        first = np.where(right, first + half + 1, first)
        rest = np.where(right, rest - half - 1, half)
    return first


def _in_bins(
    name: str,
    points: Array,
    bins: list[Tensor | int],
    ranges: Any,
    weight: Tensor | None,
    density: bool,
) -> Any:
    """(counts, edges) of points (n, d). Errors: ArgumentError on ranges that are not a pair for each dimension."""
    if ranges is not None and len(ranges) != 2 * len(bins):
        raise ArgumentError(
            f"{name}: for a {len(bins)}-dimensional histogram range should have {2 * len(bins)} elements, but got "
            f"{len(ranges)}",
            expected="the lowest and the highest edge of each dimension",
            got=str(ranges),
            fix="pass range=(low, high)",
        )
    edges = []
    for k, count in enumerate(bins):
        column = points[:, k]
        low, high = (0.0, float(not column.size)) if ranges is None else ranges[2 * k : 2 * k + 2]
        if not isinstance(count, Tensor):
            of_values = column if ranges is None else column[:0]  # a given range is never theirs
            low, high = _bounds(name, of_values, low, high, 0.5)
        edges.append(_edges(count, low, high, points.dtype))
    weights = None if weight is None else host.to_numpy(weight).reshape(-1).astype(np.float64)
    if weight is not None and weights is not None and len(weights) != len(points):
        raise ShapeError(
            f"{name}: if weight tensor is provided it should have the same shape as the input tensor excluding its "
            "innermost dimension",
            expected=f"{len(points)} weights",
            got=describe("weight", weight),
            fix="pass a weight for each point",
        )
    wide = [e.astype(np.float64) for e in edges]
    equal = [not isinstance(count, Tensor) for count in bins]
    counts = _counted(points, wide, equal, weights)
    if density:
        volume: Any = 1.0
        for k, e in enumerate(wide):
            volume = volume * np.diff(e).reshape((-1,) + (1,) * (len(edges) - k - 1))
        with np.errstate(all="ignore"):
            counts = counts / counts.sum() / volume
    return counts, edges


def histogram(
    input: Tensor,
    bins: Tensor | int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Tensor | None = None,
) -> Any:
    """(counts or densities, edges) over intervals: a number of equal ones, or between given edges. Reads the values."""
    need_tensor("histogram", input)
    points = host.to_numpy(input).reshape(-1, 1)
    counts, edges = _in_bins("torch.histogram", points, [bins], range, weight, density)
    made = (host.from_numpy(counts, input._dtype), host.from_numpy(edges[0], input._dtype))
    pair = tuple(underived("aten::histogram", part, input) for part in made)
    if out is not None:
        return give_all(out, Histogram(pair))
    return Histogram(pair)


def histogramdd(
    input: Tensor,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """(counts or densities, edges per dimension) of points (..., d). Reads the values."""
    need_rank("histogramdd", need_tensor("histogramdd", input), 2)
    points = host.to_numpy(input).reshape(-1, input._shape[-1])
    each = list(bins) if isinstance(bins, (tuple, list)) else [bins] * points.shape[1]
    if len(each) != points.shape[1]:
        raise ArgumentError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input.",
            expected=f"bins for each of {points.shape[1]} dimensions",
            got=str(len(each)),
            fix="pass one for each column of the points",
        )
    for part in each:
        edges = host.to_numpy(part) if isinstance(part, Tensor) else np.zeros(1)
        if edges.ndim != 1:
            raise ArgumentError(
                "histogramdd(): bin edges should be vectors",
                expected="edges with one dimension",
                got=f"bins {describe('bins', part)}",
                fix="flatten the edges",
            )
    counts, ends = _in_bins("torch.histogramdd", points, each, range, weight, density)
    hist, *edges = (
        underived("aten::histogramdd", host.from_numpy(array, input._dtype), input)
        for array in (counts, *ends)
    )
    return Histogramdd((hist, tuple(edges)))


publish(globals())
