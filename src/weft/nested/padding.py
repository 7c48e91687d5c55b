"""Ragged tensors as padded dense ones, and back: all items at once, or in buckets of like size.

Each element of the dense tensors is read from the values by index, or from one entry of padding behind them. Products
and attention run on buckets, so that padding stays small whatever the lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import weft
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.strides import inverse_order
from weft.nested.rows import RaggedDim, buckets_of, constant, indices
from weft.nested.tensor import NestedTensor
from weft.ops.primitives import take


def places_of(rows: RaggedDim, items: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """The source entry of each element of padded items: (items, *sizes); the number of all entries stands for
    padding."""
    grid = np.meshgrid(items, *(np.arange(size) for size in sizes), indexing="ij")
    flat = [axis.ravel() for axis in grid]
    inside = rows.holds(flat)
    found = np.full(len(inside), rows.total, dtype=np.int64)
    found[inside] = rows.locate([axis[inside] for axis in flat])
    return found.reshape(grid[0].shape)


def longest(rows: RaggedDim, items: np.ndarray) -> list[int]:
    """The largest size of each ragged dimension in some items."""
    return [int(counts[items].max()) if len(items) else 0 for counts in sizes_per_item(rows)]


def sizes_per_item(rows: RaggedDim) -> list[np.ndarray]:
    """For each ragged dimension the longest row in each item."""
    return rows.kept("sizes per item", lambda: _sizes_per_item(rows))


def _sizes_per_item(rows: RaggedDim) -> list[np.ndarray]:
    found = [rows.levels[0].lengths]
    for level in rows.levels[1:]:
        longest_rows = np.zeros(rows.batch, dtype=np.int64)
        assert level.parent is not None
        np.maximum.at(longest_rows, level.parent.coordinates()[0], level.lengths)
        found.append(longest_rows)
    return found


class Padded:
    """The padding of one structure for one bucket of items: index tensors, made once."""

    def __init__(self, rows: RaggedDim, items: np.ndarray) -> None:
        self.items, self.sizes = items, longest(rows, items)
        self.places = places_of(rows, items, self.sizes)
        self.index = indices(self.places)
        self.real = self.places < rows.total
        self.full = bool(self.real.all())
        self.mask = constant(self.real)


def with_edge(tensor: NestedTensor, fill: float) -> Any:
    """The values with an entry of padding behind them."""
    values = tensor.packed
    return weft.cat([values, weft.full((1, *values.shape[1:]), fill, dtype=values.dtype)])


def pad(tensor: NestedTensor, edged: Tensor, padded: Padded) -> Any:
    """A bucket of items, padded, in the tensor's order of dimensions."""
    found = take(edged, 0, padded.index)  # (items, *sizes, *uniform)
    order = (0, *tensor.dims, *tensor.uniform)
    return found if order == tuple(sorted(order)) else found.permute(inverse_order(order))


class Buckets:
    """Items of several structures in common buckets, and the way back to the entries of another structure."""

    def __init__(self, *structures: RaggedDim) -> None:
        counts = [count for rows in structures for count in sizes_per_item(rows)]
        self.parts = [[Padded(rows, items) for rows in structures] for items in buckets_of(*counts)]

    def back(self, rows: RaggedDim, sizes: Sequence[Sequence[int]]) -> tuple[Any, bool]:
        """The position of each entry of `rows` among the padded elements of all buckets, and whether some have none:
        these get the position after the last."""
        coordinates = rows.coordinates()
        start = 0
        offset, stride = np.full(rows.batch, -1), np.zeros((rows.depth, rows.batch), dtype=np.int64)
        for part, shape in zip(self.parts, sizes, strict=True):
            items = part[0].items
            each = int(np.prod(shape))
            offset[items] = start + np.arange(len(items)) * each
            for level in range(rows.depth):
                stride[level, items] = int(np.prod(shape[level + 1 :]))
            start += len(items) * each
        item = coordinates[0]
        found = offset[item] + sum(
            places * stride[level, item] for level, places in enumerate(coordinates[1:])
        )
        nowhere = offset[item] < 0
        return indices(np.where(nowhere, start, found)), bool(nowhere.any())


def anchored(values: Tensor, *tensors: NestedTensor) -> Any:
    """Values with the graph of tensors of which no entry reached them."""
    for tensor in tensors:
        if tensor.requires_grad:
            values = values + tensor.packed[:0].sum()
    return values


def to_padded(tensor: NestedTensor, fill: float, sizes: Sequence[int] | None = None) -> Any:
    """All items, padded to the longest, or to sizes of the ragged dimensions."""
    rows = tensor.rows
    items = np.arange(rows.batch)
    wanted = longest(rows, items) if sizes is None else list(sizes)
    places = places_of(rows, items, wanted)
    values = tensor.packed if (places < rows.total).all() else with_edge(tensor, fill)
    found = take(values, 0, indices(places))
    order = (0, *tensor.dims, *tensor.uniform)
    return found if order == tuple(sorted(order)) else found.permute(inverse_order(order))
