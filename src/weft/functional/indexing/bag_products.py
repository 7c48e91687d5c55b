"""Products of a sparse matrix with a table of rows, which are never gathered: sums of bags of embeddings, and products
of compressed sparse rows.

It takes a table, which row each position names, and where each bag starts; sums, weighted sums or maxima of bags come
out. Bags of about one length are the columns of one index (taps, bags). A long one among short ones is divided: its
pieces are bags, and their results are the rows of a table whose bags are those asked for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.engine.frontend.tensor import Tensor
from weft.functional.support import host
from weft.functional.support.index_bounds import trusted
from weft.ops.primitives import (
    full,
    gather,
    iota,
    permute,
    reduce,
    resample,
    resample_largest,
    take,
    where,
)

GATHERED_ELEMENTS = 1 << 18  # up to which rows are gathered: those of several small bags batch
FEWEST_TAPS = 8  # of a piece
SPREAD = 2  # times the mean length, up to which bags are not divided


def of_one_length(table: Tensor, index: Tensor, weights: Tensor | None, largest: bool) -> Any:
    """Bags of one length. Shapes: (n, d), (B, L), (B, L) or None -> (B, d)."""
    turned = None if weights is None else permute(weights, (1, 0))
    return _reduced(table, permute(index, (1, 0)), turned, largest)


class Bags(NamedTuple):
    """Bags of any length as pieces of about one: what each tap of a piece names, -1 for nothing, which position that
    is among all, and the first piece of each bag. Shapes: (taps, pieces) twice, (B + 1)."""

    rows: Tensor
    positions: Tensor
    starts: np.ndarray

    @property
    def divided(self) -> bool:
        """True if some bag has several pieces."""
        return bool(self.rows._shape[1] > len(self.starts) - 1)


def of_any_length(
    table: Tensor, index: Tensor, weights: Tensor | None, starts: np.ndarray, largest: bool
) -> Any:
    """Bags [starts[i], starts[i + 1]) of an index. Shapes: (n, d), (M), (M) or None, (B + 1) -> (B, d)."""
    positions, starts_of_pieces = _pieces(starts)
    valid = host.from_numpy(positions >= 0)
    places = trusted(host.from_numpy(positions.clip(0)), index._shape[0])
    taps = where(valid, take(index, 0, places), -1)  # (M) -> (taps, pieces)
    return of_bags(table, Bags(taps, places, starts_of_pieces), weights, largest)


def bags_of_rows(index: np.ndarray, starts: np.ndarray, order: np.ndarray) -> Bags:
    """The bags of an index that is known, and not empty; their members are in this order. Shapes: (M), (B + 1), (M)."""
    positions, starts_of_pieces = _pieces(starts)
    places = order[positions]  # those of -1 are not looked at
    taps = np.where(positions >= 0, index[places], -1)
    found = trusted(host.from_numpy(places), len(order))
    return Bags(host.from_numpy(taps), found, starts_of_pieces)


def of_bags(table: Tensor, bags: Bags, weights: Tensor | None, largest: bool) -> Any:
    """Shapes: (n, d), (taps, pieces), (M) or None -> (B, d)."""
    shares = None if weights is None else take(weights, 0, bags.positions)
    values = _reduced(table, bags.rows, shares, largest)
    if not bags.divided:
        return values
    index = iota((bags.rows._shape[1],))
    if largest:  # a piece without rows is no row
        index = where(reduce("any", bags.rows >= 0, (0,)), index, -1)
    return of_any_length(values, index, None, bags.starts, largest)


def _pieces(starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The positions (taps, pieces) of each piece's members, -1 behind the last one, and the first piece of each bag."""
    lengths = np.diff(starts)
    mean = -(-int(lengths.sum()) // max(len(lengths), 1))
    longest = int(lengths.max(initial=1))
    most = longest if longest <= SPREAD * mean else max(mean, FEWEST_TAPS)
    counts = np.maximum(-(-lengths // most), 1)
    first = np.append(0, np.cumsum(counts))
    bag = np.repeat(np.arange(len(counts)), counts)
    begin = starts[:-1][bag] + most * (np.arange(first[-1]) - first[:-1][bag])
    positions = begin + np.arange(most)[:, None]
    return np.where(positions < starts[1:][bag], positions, -1), first


def _reduced(table: Tensor, index: Tensor, weights: Tensor | None, largest: bool) -> Any:
    """Shapes: (n, d), (taps, bags), (taps, bags) or None -> (bags, d)."""
    if not largest:
        weights = full(index._shape, 1, table._dtype) if weights is None else weights
        return resample(table, 0, index, weights)
    row = resample_largest(table, 0, index)
    return where(row >= 0, gather(table, 0, row.clamp(min=0)), 0)
