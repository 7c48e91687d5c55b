"""Positions of the entries of a sparse tensor, as numbers of the host.

Indices (one row per sparse dimension, one column per entry) and sizes give flat positions, orders, groups and pairs of
entries. They are read at the call: the number of entries of a result depends on them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft import Tensor
from weft.functional.support import host
from weft.functional.support.index_bounds import trusted


def places_of(indices: Tensor) -> Any:
    """Indices as an array. Cost: runs what they need."""
    return host.to_numpy(indices)


def as_index(array: np.ndarray, size: int) -> Tensor:
    """Positions that are known to be in range of a dimension of `size`."""
    return trusted(host.from_numpy(np.ascontiguousarray(array, np.int64)), size)  # type: ignore[no-any-return]


def as_indices(rows: Any, count: int) -> Tensor:
    """Rows of indices as a tensor (rows, count)."""
    array = np.asarray(rows, np.int64).reshape(len(rows), count)
    return host.from_numpy(array)  # type: ignore[no-any-return]


def flat(places: np.ndarray, sizes: tuple[int, ...]) -> Any:
    """The row-major position of each column of indices."""
    position = np.zeros(places.shape[1], np.int64)
    for row, size in zip(places, sizes, strict=True):
        position = position * size + row
    return position


def unflat(position: np.ndarray, sizes: tuple[int, ...]) -> Any:
    """The columns of indices that row-major positions stand for."""
    if not sizes:
        return np.zeros((0, len(position)), np.int64)
    if not math.prod(sizes):
        return np.zeros((len(sizes), len(position)), np.int64)
    return np.stack(np.unravel_index(position, sizes)).astype(np.int64)


def is_ascending(position: np.ndarray) -> bool:
    """True if each position is above the one before."""
    return bool((position[1:] > position[:-1]).all())


def matches(keys: np.ndarray, wanted: np.ndarray) -> tuple[Any, Any]:
    """All pairs (place in keys, place in wanted) of equal numbers, in the order of `wanted`."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.searchsorted(ordered, wanted, "left")
    counts = np.searchsorted(ordered, wanted, "right") - first
    others = np.repeat(np.arange(len(wanted)), counts)
    starts = np.repeat(first - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    return order[starts + np.arange(len(others))], others


def products(columns: np.ndarray, starts: np.ndarray) -> tuple[Any, Any]:
    """The terms of a product of matrices, in the order of the entries of the first one: which of these, in `columns`,
    meets which entry of the second one, whose rows begin at `starts`."""
    first = starts[columns]
    counts = starts[columns + 1] - first
    left = np.repeat(np.arange(len(columns)), counts)
    ahead = np.repeat(first - (np.cumsum(counts) - counts), counts)
    return left, ahead + np.arange(len(left))


def row_starts(rows: np.ndarray, count: int) -> Any:
    """The start of each row among entries ordered by row, and the end of the last: compressed rows."""
    return np.searchsorted(rows, np.arange(count + 1), "left").astype(np.int64)


def starts_of_lines(
    places: np.ndarray, axis: int, batch: tuple[int, ...], count: int
) -> np.ndarray:
    """The starts of the `count` lines of each batch of compressed matrices, whose entries are in order of batches, then
    of lines along `axis`; each ends with the number of entries. Shapes: (*batch, count + 1)."""
    batches = math.prod(batch)
    lines = flat(places[:-2], batch) * count + places[len(batch) + axis]
    starts = row_starts(lines, batches * count)
    first = starts[np.arange(batches) * count][:, None]
    per_batch = first + np.zeros((1, count + 1), np.int64)
    per_batch[:, 1:] = starts[1:].reshape(batches, count)
    return (per_batch - first).reshape(*batch, count + 1)


def is_even(places: np.ndarray, batch: tuple[int, ...]) -> bool:
    """True if each batch has as many entries."""
    counts = np.bincount(flat(places[: len(batch)], batch), minlength=math.prod(batch))
    return not len(counts) or bool((counts == counts[0]).all())
