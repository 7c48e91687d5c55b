"""Where elements of an array stand in an order: what sort, topk, running extrema and random orders ask NumPy for.

In come arrays of values; out go places, int64. nan counts as the largest.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from weft.functional import host

WIDE = 64  # elements beside each other that NumPy goes through in about the time of a call
LITTLE = 2048  # elements that are put in order sooner than their parts are looked for
FEW = 4  # so many times fewer than a row has are looked for before they are put in order


def order_of(array: Any, axis: int, descending: bool) -> Any:
    """Stable argsort; nan last in ascending order, first in descending order."""
    if not descending:
        return host.answering(np.argsort, array, axis=axis, kind="stable")
    backwards = (slice(None),) * (axis % array.ndim) + (slice(None, None, -1),)
    order = host.answering(np.argsort, array[backwards], axis=axis, kind="stable")
    return (array.shape[axis] - 1 - order)[backwards]


def first_places(array: Any, axis: int, k: int, largest: bool) -> Any:
    """The first k of `order_of`: where rows are much longer, only what is not behind the k-th is put in order."""
    size = array.shape[axis]
    if not 0 < k <= size // FEW or array.size <= LITTLE:
        lead = (slice(None),) * (axis % array.ndim)
        return order_of(array, axis, largest)[(*lead, slice(k))]
    lines = np.ascontiguousarray(np.moveaxis(array, axis, -1))
    place = size - k if largest else k - 1
    bound = host.answering(np.partition, lines, place, -1)[..., place : place + 1]
    chosen = ~(lines < bound if largest else lines > bound)
    if np.count_nonzero(chosen) * size != chosen.size * k:
        chosen = _first_of_equals(lines, bound, k, largest)
    places = (np.flatnonzero(chosen) % size).reshape(*lines.shape[:-1], k)
    order = order_of(np.take_along_axis(lines, places, -1), -1, largest)
    return np.moveaxis(np.take_along_axis(places, order, -1), -1, axis)


def _first_of_equals(lines: Any, bound: Any, k: int, largest: bool) -> Any:
    """Which k elements of each row come first, the last of them equal to `bound`, where others may be too, or nan."""
    nan, nan_bound = lines != lines, bound != bound
    level = (lines == bound) | (nan & nan_bound)
    above, below = (lines > bound) | (nan & ~nan_bound), (lines < bound) | (nan_bound & ~nan)
    beyond = above if largest else below
    room = k - np.count_nonzero(beyond, -1, keepdims=True)
    return beyond | (level & (np.cumsum(level, -1) <= room))


def last_best(array: Any, axis: int, smaller: bool) -> Any:
    """For each place along an axis the last one up to it that is nan, or else the extremum so far."""
    best = _running(np.minimum if smaller else np.maximum, array, axis)
    places = np.arange(array.shape[axis]).reshape(-1, *(1,) * (array.ndim - 1 - axis))
    level = (array == best) | (array != array)
    return _running(np.maximum, np.where(level, places, 0), axis)


def _running(function: Any, array: Any, axis: int) -> Any:
    """A ufunc's running values along an axis: line by line, where neighbours behind the axis are worth a call."""
    if math.prod(array.shape[axis + 1 :]) < WIDE:
        return function.accumulate(array, axis)
    found = array.copy()
    for last, line in itertools.pairwise(np.moveaxis(found, axis, 0)):
        function(last, line, out=line)
    return found


def coordinates(array: Any) -> Any:
    """Where elements are not 0, in row-major order: (dimensions, count). NumPy's own search goes by the element as soon
    as there are two dimensions."""
    flat = host.answering(np.flatnonzero, array)
    found = np.empty((len(flat), array.ndim), np.int64).T
    if array.ndim == 1:
        found[0] = flat
    for axis in range(array.ndim - 1, 0, -1):
        above = np.floor_divide(flat, array.shape[axis], out=found[axis - 1])
        np.subtract(flat, above * array.shape[axis], out=found[axis])
        flat = above
    return found


def order_of_keys(keys: Any) -> Any:
    """The stable order of random keys. A place takes the low bits of its key, where they decide nothing."""
    low = (1 << max(len(keys) - 1, 0).bit_length()) - 1
    order = np.sort((keys & ~low) | np.arange(len(keys))) & low
    in_order = keys[order]
    return order if (in_order[:-1] <= in_order[1:]).all() else np.argsort(keys, kind="stable")
